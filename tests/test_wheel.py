"""The wheel installs into an empty environment and runs outside the repository."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_wheel_has_the_recipes_and_the_type_marker(tmp_path: Path) -> None:
    names = zipfile.ZipFile(built(tmp_path)).namelist()
    assert "remnant/py.typed" in names
    recipes = [path.relative_to(ROOT / "src") for path in ROOT.glob("src/remnant/config/recipes/**/*.toml")]
    assert {str(path) for path in recipes} <= set(names)
    assert {f"remnant/report/html/templates/{name}" for name in ("report.html", "report.css")} <= set(names)
    assert not [name for name in names if name.startswith("tests")]


@pytest.mark.slow
def test_the_wheel_runs_in_an_empty_environment(tmp_path: Path) -> None:
    wheel, home = built(tmp_path), tmp_path / "venv"
    venv.create(home, with_pip=True)
    run(
        str(home / "bin" / "pip"),
        "install",
        "-q",
        "-c",
        str(ROOT / "constraints.txt"),
        str(wheel),
        cwd=tmp_path,
    )
    done = run(str(home / "bin" / "remnant"), "run", "epochs=2", "-q", cwd=tmp_path)
    assert (tmp_path / done.splitlines()[-1] / "result.json").exists()
    assert run(str(home / "bin" / "remnant"), "--version", cwd=tmp_path).startswith("remnant ")


def built(folder: Path) -> Path:
    """Build the wheel with the installed hatchling."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(folder), str(ROOT)]
    run(*build, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def run(*words: str, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
