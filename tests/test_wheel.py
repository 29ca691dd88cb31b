"""The wheel installs into an empty environment and runs outside the repository."""

import json
import os
import shutil
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
def test_builds_at_different_times_have_the_same_bytes(tmp_path: Path) -> None:
    wheels = []
    for name in ("first", "second"):
        copy = tmp_path / name
        for part in ("pyproject.toml", "README.md", "LICENSE"):
            copy.mkdir(exist_ok=True)
            (copy / part).write_bytes((ROOT / part).read_bytes())
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src", copy / "src", copy_function=shutil.copyfile, ignore=ignored)
        for path in copy.rglob("*"):
            os.utime(path, (1e9, 1e9) if name == "first" else None)
        wheels.append(built(tmp_path / f"wheel-{name}", copy).read_bytes())
    assert wheels[0] == wheels[1]


def test_the_bill_of_materials_and_the_hashes_list_the_pinned_packages() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line for line in lines if line and not line.startswith("#")}
    parts = json.loads((ROOT / "docs" / "sbom.json").read_text())["components"]
    assert {f"{part['name']}=={part['version']}" for part in parts} == pinned
    hashed = (ROOT / "constraints-hashes.txt").read_text().splitlines()
    names = {plain(line.split(" --hash=sha256:")[0]) for line in hashed if not line.startswith("#")}
    assert names == {plain(line) for line in pinned if not line.startswith("torch==")}


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


def plain(requirement: str) -> str:
    """Return a requirement with the name as in an index."""
    return requirement.replace("_", "-").lower()


def built(folder: Path, source: Path = ROOT) -> Path:
    """Build the wheel with the installed hatchling."""
    folder.mkdir(exist_ok=True)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(folder), str(source)]
    run(*build, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def run(*words: str, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
