"""Every command and every code block of the documentation site runs as it is printed there.

Commands that a test cannot run are parsed by the command line, and their settings are resolved.
"""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from command_lines import check_command, options_of
from own_files import write_folder, write_table
from pages import ROOT, blocks, commands, page_names, snippets

from remnant import cli
from remnant.config import recipe, resolve
from remnant.report.markers import updated
from remnant.sweep.grid import expand

# Pages whose commands run in the default suite, in seconds, and those whose commands take a minute or more.
FAST = (
    "README.md", "docs/own-data.md", "docs/report.md", "docs/audit.md", "docs/gpu.md", "docs/RESULTS.md",
)  # fmt: skip
SLOW = (
    "docs/tutorial.md", "docs/usage.md", "docs/learner.md", "docs/experiments.md", "docs/cluster.md",
    "docs/extend.md", "docs/trace.md",
)  # fmt: skip
# Pages without commands, or whose commands are all in NOT_RUN.
REST = (
    "bench/README.md", "examples/README.md", "docs/DEVIATIONS.md", "docs/api.md", "docs/settings.md",
    "docs/faq.md", "docs/architecture.md", "docs/RELIABILITY.md", "SECURITY.md", "docs/adr/README.md",
    "CONTRIBUTING.md", "CHANGELOG.md",
    *(f"docs/methods/{name}.md" for name in (
        "README", "bounds", "er", "er-ace", "aer-abs", "consolidation", "der", "gdumb", "puridiver", "spr",
        "cnll",
    )),
)  # fmt: skip
# Parts of commands that are parsed only: what they need.
NOT_RUN = {
    "~/data": "the files of a dataset",
    "data get": "the network",
    "noise.source=fashion-mnist": "the files of a dataset",
    "pip install": "the network",
    "-m venv": "an environment without this package",
    "activate": "an interactive shell",
    "--backend ray": "a cluster",
    "--backend slurm": "a cluster",
    "device=cuda": "a GPU",
    "sweep desk/digits": "hours",
    "--results results/mine.json": "hours",
    "python bench/": "minutes to hours on an idle machine",
    "make ": "a checkout in which nothing else is done: it changes files or runs the tests",
    "git worktree": "a checkout in which nothing else is done",
}
# Parts of commands that take minutes.
MINUTES = (
    "+consolidation", "+dividemix", "--method spr", "--method cnll", "er er-ace aer-abs", "remnant demo",
    "torchrun",
)  # fmt: skip
# First words of the other blocks without a language: what they are.
TEXTS = {
    "README.md": {"digits, symmetric:0.4": "a table whose numbers depend on the processor"},
    "docs/usage.md": {"runs/<recipe>": "the files of a run, which another test compares"},
    "docs/experiments.md": {"<!-- table": "comments of a page, which another test expands"},
    "docs/architecture.md": {"data  ->": "a diagram", "config/": "a diagram"},
    "docs/trace.md": {"for each task": "pseudocode"},
    "docs/methods/bounds.md": {"L = ": "a formula"},
    "docs/methods/er.md": {"L = ": "a formula"},
    "docs/methods/er-ace.md": {"L = ": "a formula"},
    "docs/methods/aer-abs.md": {"for each task": "pseudocode", "current task": "a formula"},
    "docs/methods/der.md": {"L = ": "a formula"},
    "docs/methods/consolidation.md": {
        "L = mean over M of": "a formula",
        "trusted:": "a formula",
        "R = |M|": "a formula",
        "u > 0.5": "a formula",
    },
    "docs/methods/gdumb.md": {"L = ": "a formula"},
    "docs/methods/spr.md": {"SimCLR": "a formula"},
    "docs/methods/cnll.md": {"JSD": "a formula"},
    "docs/methods/puridiver.md": {"score = ": "a formula"},
    "docs/adr/0012-packages-follow-the-path-of-a-sample.md": {"data ->": "a diagram"},
    "docs/adr/0013-one-loop-owns-the-position.md": {"for epoch in": "a fragment of a learner"},
}
# Each block of TOML is read by a test of its own; the reference is generated, and its examples are doctests.
TOML, REFERENCE = ("docs/usage.md", "docs/experiments.md", "docs/extend.md"), "docs/api.md"


def is_among(command: str, parts: Sequence[str]) -> bool:
    return any(part in command for part in parts)


def run_commands(page: str) -> list[str]:
    return [command for command in commands(page) if not is_among(command, [*NOT_RUN])]


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        command, shell=True, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like a checkout, with the files that the pages tell the reader to save."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (greedy,) = (code for code in snippets("docs/extend.md", "python") if "AER_GREEDY" in code)
    (tmp_path / "greedy.py").write_text(greedy)
    (tmp_path / "grid.toml").write_text(*snippets("docs/experiments.md", "toml"))
    shutil.copytree(ROOT / "results", tmp_path / "results")
    shutil.copy(ROOT / "results" / "desk" / "digits.json", tmp_path)
    for folder in ("photos", "more-photos"):
        write_folder(tmp_path / folder, {"cat": 6, "dog": 6, "eel": 6, "fox": 6})
    write_folder(tmp_path, {"new-photos": 4})
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))  # for --install-completion
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_labels(folder: Path) -> None:
    """Write the table of docs/own-data.md, and a file of labels for docs/usage.md."""
    rows = [(f"photos/{label}/{i}.png", label) for label in ("cat", "dog") for i in range(6)]
    write_table(folder / "labels.csv", ("path", "label"), rows)
    np.savez(folder / "labels.npz", human_worse_label=np.zeros(50_000, int))
    (folder / "digits-tuned.toml").write_text('base = "digits"\n')


def run_all(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run command lines as the shell would, without the seconds that each new process takes."""
    for line in lines:
        if line.startswith("torchrun"):
            assert shell(line, Path.cwd()).returncode == 0
            continue
        words = [name for word in shlex.split(line) for name in sorted(glob.glob(word)) or [word]]
        if "RUN" in words:
            words[words.index("RUN")] = first_run()
        if "decisions.csv" in words:
            write_decisions(Path(first_run()))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", words)
            if words[1] == "run":  # the report of each run takes a second: as without matplotlib
                patch.setitem(sys.modules, "matplotlib", None)
            with pytest.raises(SystemExit) as done:
                cli.main()
        assert not done.value.code, line


def first_run() -> str:
    """Return the run folder that a page calls RUN."""
    return str(min(Path("runs").iterdir(), key=lambda folder: (folder / "result.json").stat().st_mtime))


def write_decisions(run: Path) -> None:
    """Write the file that the audit page of a run lets the reader download."""
    first, *others = [line.split(",") for line in (run / "suspects.csv").read_text().splitlines()[1:]]
    other = next(row[5] for row in others if row[5] != first[5])
    Path("decisions.csv").write_text(
        f"id,path,given,decision,label\n{first[0]},{first[1]},{first[5]},wrong,{other}\n"
    )


def test_every_page_is_in_one_list_and_the_lists_are_up_to_date() -> None:
    numbered = [page for page in page_names() if "/adr/0" in page]
    assert sorted([*FAST, *SLOW, *REST, *numbered]) == sorted(page_names())
    assert [page for page in (*REST, *numbered) if run_commands(page)] == []
    every = [command for page in page_names() for command in commands(page)]
    assert [part for part in (*NOT_RUN, *MINUTES) if not any(part in command for command in every)] == []


@pytest.mark.parametrize("page", page_names())
def test_every_block_of_a_page_is_tested(page: str) -> None:
    texts = dict(TEXTS.get(page, {}))
    for block in blocks(page):
        if block.has_commands or block.language == "python":
            continue
        if block.language == "toml":
            assert page in TOML, block.code
        elif block.language:
            assert page == REFERENCE, block.code
            assert block.language in ("py", "pycon")
        else:
            (start,) = (start for start in texts if block.code.strip().startswith(start))
            del texts[start]
    assert not texts, "blocks that are on this page no more"


@pytest.mark.parametrize("page", [page for page in page_names() if commands(page)])
def test_the_options_and_settings_of_every_command_exist(
    page: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_labels(checkout)
    for command in commands(page):
        check_command(command, monkeypatch)


def test_the_options_of_commands_in_sentences_exist() -> None:
    for page in page_names():
        text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.S | re.M)
        for span in re.findall(r"`remnant ((?:data )?[a-z]+)\b([^`]*)`", text):
            known = options_of(span[0])
            assert set(re.findall(r"(?<!\S)--?[a-z][\w-]*", span[1])) <= known, f"{page}: {span}"


def seconds_of(page: str, checkout: Path) -> list[str]:
    """Return the commands of a page that take seconds; write the files that they read."""
    if page == "docs/own-data.md":
        write_labels(checkout)
    return [line for line in run_commands(page) if not is_among(line, MINUTES)]


def shortened(line: str) -> str:
    """Return a command that takes a second, even if it trains on images."""
    if not re.match(r"remnant (run|audit) (folder|table):", line):
        return line
    return f"{line} net=small:4" + (" epochs=2" if "epochs" not in line else "")


@pytest.mark.parametrize("page", FAST)
def test_the_commands_of_a_page_run(page: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [shortened(line) for line in seconds_of(page, checkout) if ".onnx" not in line]
    run_all(lines, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in page_names() if run_commands(page)])
def test_the_commands_of_a_page_run_as_printed(
    page: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all(seconds_of(page, checkout), monkeypatch)


@pytest.mark.slow
def test_the_commands_that_take_minutes_run(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for page in page_names() for line in run_commands(page) if is_among(line, MINUTES)]
    run_all(list(dict.fromkeys(lines)), monkeypatch)


@pytest.mark.parametrize("page", [page for page in page_names() if snippets(page, "python")])
def test_the_python_of_a_page_runs(page: str, checkout: Path) -> None:
    for code in snippets(page, "python"):
        exec(compile(code, f"<{page}>", "exec"), {"__name__": "__main__"})


def test_the_files_of_a_run_are_those_of_the_usage_page(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = (block.code for block in blocks("docs/usage.md") if "runs/<recipe>" in block.code)
    monkeypatch.setattr(sys, "argv", ["remnant", "run", "per_class=12", "net=small:4", "epochs=2", "-q"])
    with pytest.raises(SystemExit):
        cli.main()
    (folder,) = (checkout / "runs").iterdir()
    files = sorted(path.name for path in folder.iterdir() if path.name != ".lock")
    assert files == sorted(re.findall(r"^ {6}(\w[\w.]+)", text, re.M))


def test_the_comments_of_the_experiments_page_are_replaced_by_tables() -> None:
    (text,) = (block.code for block in blocks("docs/experiments.md") if "<!-- table" in block.code)
    assert updated(text.replace("    <!--", "<!--"), ROOT).count("\n| --- |") == 2


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
