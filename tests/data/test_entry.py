"""Tests with a dataset of another package, which is really installed and found by its entry point."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import Invoke

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "bear-images"
version = "1.0"

[tool.setuptools]
py-modules = ["bears", "owls"]

[project.entry-points."remnant.data"]
bears = "bears:BEARS"
wolves = "bears:SPEC"
foxes = "bears:FOXES"
cats = "nowhere:CATS"
digits = "bears:BEARS"
lynxes = "bears:LYNXES"
hares = "bears:HARES"
moles = "bears:MOLES"
owls = "owls:OWLS"
"""
MODULE = """
from dataclasses import replace
import numpy as np
from remnant import Entry, Spec, ImageTransform, arrays

SPEC = Spec(
    name="bears",
    shape=(1, 6, 6),
    classes=("black", "brown", "polar", "sun"),
    transform=ImageTransform(mean=(0.5,), std=(0.3,), pad=1, flip=True),
)


def load(folder):
    y = np.arange(80) % 4
    x = np.broadcast_to(60 * y[:, None, None, None], (80, 1, 6, 6)).astype(np.uint8)
    return arrays(SPEC, x[:60], y[:60], x[60:], y[60:], truth=y[:60])


BEARS = Entry(spec=SPEC, about="four species of bears", loader=load)
FOXES = Entry(spec=replace(SPEC, name="foxes"), about="[/red] foxes", loader=lambda folder: 1 / 0)
LYNXES = Entry(spec=replace(SPEC, name="lynxes"), about="another spec", loader=load)
HARES = Entry(spec=replace(SPEC, name="hares"), about="returns nothing", loader=lambda folder: None)
MOLES = Entry(spec=None, about="without a spec", loader=load)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which a package with datasets is installed."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "bears.py").write_text(MODULE)
    (source / "owls.py").write_text("import sys; sys.exit('no owls today')")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--no-deps", "--target", target, source], check=True)
    return target


def remnant(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "remnant", *words]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)


@pytest.mark.slow
def test_a_run_uses_a_dataset_of_another_package(installed: Path, tmp_path: Path) -> None:
    settings = ["data=bears", "tasks=2", "epochs=2", "buffer_size=8", "net=small:4"]
    done = remnant(installed, "run", *settings, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "aer-abs on bears" in done.stdout
    assert "polar, sun" in done.stdout
    assert Path(done.stdout.splitlines()[-1]).name.startswith("bears-aer-abs-")
    again = remnant(installed, "run", done.stdout.splitlines()[-1], "--out", str(tmp_path))
    assert again.stdout.splitlines()[-1] == done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_noise_of_a_plug_in_is_shown_and_nothing_is_downloaded(installed: Path) -> None:
    shown = remnant(installed, "data", "noise", "bears", "--type", "symmetric:0.4")
    assert "bears, noise symmetric:0.4, seed 0" in shown.stdout
    assert "nothing to download" in remnant(installed, "data", "get", "bears").stdout


FAULTS = {
    "bear": "did you mean 'bears'?",
    "wolves": "expected a remnant.Entry whose spec is named 'wolves', found 'Spec'",
    "foxes": "its loader failed with ZeroDivisionError: division by zero",
    "lynxes": "expected its loader to return the result of remnant.arrays() for its entry's spec",
    "hares": "found NoneType. Fix the loader",
    "moles": "expected a remnant.Entry whose spec is named 'moles', found 'Entry'",
    "owls": "importing it failed with SystemExit: no owls today",
    "cats": "importing it failed with ModuleNotFoundError: No module named 'nowhere'",
}


def test_an_error_of_a_plug_in_names_the_package(
    installed: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed))
    for name, words in FAULTS.items():
        done = invoke("run", f"data={name}", "tasks=2", "--dry-run")
        assert done.code == 2, name
        assert words in done.err
        assert name == "bear" or "bear-images" in done.err


@pytest.mark.slow
def test_a_faulty_plug_in_does_not_hide_the_other_datasets(installed: Path) -> None:
    shown = remnant(installed, "list", "data")
    assert shown.returncode == 0, shown.stderr
    assert "four species of bears" in shown.stdout
    assert "importing it failed" in " ".join(shown.stdout.split())
    assert "handwritten digits" in shown.stdout  # a dataset of this package takes precedence
    assert "digits of bear-images not used" in " ".join(shown.stdout.split())
    assert "[/red] foxes" in shown.stdout


@pytest.mark.slow
def test_two_packages_with_the_same_dataset_name_are_an_error(
    installed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    info = tmp_path_factory.mktemp("other") / "more_bears-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more-bears\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[remnant.data]\nbears = bears:BEARS\n")
    both = Path(os.pathsep.join([str(installed), str(info.parent)]))
    done = remnant(both, "run", "data=bears", "tasks=2", "--dry-run")
    assert "one package with a dataset of this name, found bear-images, more-bears" in done.stderr
