"""Every snippet of README.md and of the pages in docs runs as it is printed there."""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from own_files import write_folder, write_table

from remnant import cli
from remnant.config import recipe, resolve
from remnant.report.markers import updated
from remnant.sweep.grid import expand

ROOT = Path(__file__).parent.parent
PAGES = {
    name: (ROOT / name).read_text()
    for name in (
        "README.md",
        "docs/usage.md",
        "docs/extend.md",
        "docs/experiments.md",
        "docs/trace.md",
        "docs/learner.md",
        "docs/own-data.md",
    )
}
# Files, a shell, a cluster or hours that a test does not have.
NEEDS_DATA = (
    "--data-dir",
    "data get",
    "--install-completion",
    "sweep grid.toml",
    "sweep desk",
    "remnant verify",
)
NEEDS_MINUTES = (
    "+consolidation",
    "+dividemix",
    "--method spr",
    "--method cnll",
    "er er-ace aer-abs",
    "remnant demo",
)


def snippets(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page], re.S)


def commands(page: str) -> list[str]:
    lines = [line for block in snippets(page, "bash") for line in block.splitlines()]
    return [line for line in lines if not any(words in line for words in NEEDS_DATA)]


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        command, shell=True, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like a checkout, with the module that docs/extend.md tells the reader to save."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (greedy,) = (code for code in snippets("docs/extend.md", "python") if "AER_GREEDY" in code)
    (tmp_path / "greedy.py").write_text(greedy)
    write_folder(tmp_path / "photos", {"cat": 6, "dog": 6, "eel": 6, "fox": 6})
    rows = [(f"photos/{label}/{i}.png", label) for label in ("cat", "dog") for i in range(6)]
    write_table(tmp_path / "labels.csv", ("path", "label"), rows)
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_all(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run command lines as the shell would, without the seconds that each new process takes."""
    for line in lines:
        words = [name for word in shlex.split(line, comments=True) for name in glob.glob(word) or [word]]
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", words)
            if (
                words[1] == "run"
            ):  # the report of each run takes a second: as if matplotlib were not installed
                patch.setitem(sys.modules, "matplotlib", None)
            with pytest.raises(SystemExit) as done:
                cli.main()
        assert not done.value.code, line


def test_the_commands_of_the_readme_run(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(commands("README.md")) == 5
    run_all(commands("README.md"), monkeypatch)


@pytest.mark.parametrize("page", sorted(PAGES.keys() - {"README.md", "docs/own-data.md"}))
@pytest.mark.slow
def test_the_commands_of_the_other_pages_run(
    page: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = [line for line in commands(page) if not any(words in line for words in NEEDS_MINUTES)]
    assert quick
    run_all(quick, monkeypatch)


def test_the_commands_on_own_images_run(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.partition("#")[0] for line in commands("docs/own-data.md")]
    quick = " epochs=2 net=small:4"
    run_all([line + (quick if "run" in line else "") for line in lines], monkeypatch)


@pytest.mark.slow
def test_the_long_commands_run(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for page in ("docs/usage.md", "docs/experiments.md") for line in commands(page)]
    long = [line for line in lines if any(words in line for words in NEEDS_MINUTES)]
    run_all(long, monkeypatch)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page: str, checkout: Path) -> None:
    for code in snippets(page, "python"):
        exec(compile(code, page, "exec"), {"__name__": "__main__"})


@pytest.mark.slow
def test_the_package_of_the_docs_installs_and_its_names_run(checkout: Path) -> None:
    package, target = checkout / "package", checkout / "target"
    package.mkdir()
    (text,) = (code for code in snippets("docs/extend.md", "toml") if "entry-points" in code)
    (bears,) = (code for code in snippets("docs/extend.md", "python") if "BEARS" in code)
    (package / "pyproject.toml").write_text(text)
    (package / "bears.py").write_text(bears)
    shutil.copy(checkout / "greedy.py", package)
    pip = f"{sys.executable} -m pip install -q --no-index --no-build-isolation --no-deps"
    done = shell(f"{pip} --target {target} {package}", checkout)
    assert done.returncode == 0, done.stderr
    x, y = np.zeros((80, 3, 32, 32), np.uint8), np.arange(80) % 4
    np.savez(checkout / "bears.npz", x=x, y=y, test_x=x, test_y=y)
    run = "remnant run data=bears tasks=2 --method aer-greedy epochs=2 net=small:4 --data-dir ."
    done = shell(f"PYTHONPATH={target} {run} -q", checkout)
    assert done.returncode == 0, done.stderr
    assert "aer-greedy" in shell(f"PYTHONPATH={target} remnant list methods", checkout).stdout


def test_the_recipe_of_the_docs_resolves(tmp_path: Path) -> None:
    (text,) = snippets("docs/usage.md", "toml")
    (tmp_path / "mine.toml").write_text(text)
    table = recipe.read(str(tmp_path / "mine.toml"))
    noises = ("symmetric:0.2", "symmetric:0.4")
    rates = [resolve(recipe.apply(table, {"method": "er-ace", "noise": noise})).lr for noise in noises]
    assert rates == [0.1, 0.03]


@pytest.mark.parametrize("page", ["README.md", "docs/RESULTS.md", "docs/trace.md"])
def test_the_tables_of_a_page_are_those_of_the_stored_results(page: str) -> None:
    text = (ROOT / page).read_text()
    assert updated(text, ROOT) == text, "run `make tables`"


def test_every_linked_file_exists() -> None:
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), ROOT / "CONTRIBUTING.md"]:
        for link in re.findall(r"\]\(([^)#:\s]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_file_of_the_architecture_page_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    for path in re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_]+/)+)`", text):
        places = (ROOT / "src" / "remnant" / path, ROOT / path)
        assert any(place.exists() for place in places), path


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()


def test_the_grid_of_the_docs_expands() -> None:
    (text,) = snippets("docs/experiments.md", "toml")
    # Two methods x two noises x two numbers of epochs, and two noises x two alphas, with five seeds.
    assert len(expand(tomllib.loads(text))) == 5 * (8 + 4)
