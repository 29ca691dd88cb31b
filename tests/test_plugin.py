"""A data set of another package: really installed, found by its entry point."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from remnant.augment import View
from remnant.data import Spec, arrays
from remnant.errors import RemnantError

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "bear-pictures"
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
from remnant import Entry, Spec, View, arrays

SPEC = Spec(
    name="bears",
    shape=(1, 6, 6),
    classes=("black", "brown", "polar", "sun"),
    view=View(mean=(0.5,), std=(0.3,), pad=1, flip=True),
)


def load(folder):
    y = np.arange(80) % 4
    x = np.broadcast_to(60 * y[:, None, None, None], (80, 1, 6, 6)).astype(np.uint8)
    return arrays(SPEC, x[:60], y[:60], x[60:], y[60:])


BEARS = Entry(spec=SPEC, about="four kinds of bears", loader=load)
FOXES = Entry(spec=replace(SPEC, name="foxes"), about="[/red] ones", loader=lambda folder: 1 / 0)
LYNXES = Entry(spec=replace(SPEC, name="lynxes"), about="of another spec", loader=load)
HARES = Entry(spec=replace(SPEC, name="hares"), about="none at all", loader=lambda folder: None)
MOLES = Entry(spec=None, about="without a spec", loader=load)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installed package that has a data set."""
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


def test_a_data_set_of_another_package_runs(installed: Path, tmp_path: Path) -> None:
    settings = ["data=bears", "tasks=2", "epochs=2", "buffer=8", "net=small:4"]
    done = remnant(installed, "run", *settings, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "aer-abs on bears" in done.stdout
    assert "polar, sun" in done.stdout
    assert Path(done.stdout.splitlines()[-1]).name.startswith("bears-aer-abs-")
    again = remnant(installed, "run", done.stdout.splitlines()[-1], "--out", str(tmp_path))
    assert again.stdout.splitlines()[-1] == done.stdout.splitlines()[-1]


def test_noise_can_be_looked_at_and_nothing_is_downloaded(installed: Path) -> None:
    shown = remnant(installed, "data", "noise", "bears", "--type", "symmetric:0.4")
    assert "bears, noise symmetric:0.4, seed 0" in shown.stdout
    assert "nothing to download" in remnant(installed, "data", "get", "bears").stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bear", "did you mean 'bears'?"),
        ("wolves", "expected a remnant.Entry whose spec is named 'wolves', found 'Spec'"),
        ("foxes", "its loader failed with ZeroDivisionError: division by zero"),
        ("lynxes", "expected its loader to return what remnant.arrays() makes of its entry's spec"),
        ("hares", "found NoneType. Mend that package"),
        ("moles", "expected a remnant.Entry whose spec is named 'moles', found 'Entry'"),
        ("owls", "importing it failed with SystemExit: no owls today"),
        ("cats", "importing it failed with ModuleNotFoundError: No module named 'nowhere'"),
    ],
)
def test_a_package_that_is_wrong_is_named(installed: Path, name: str, words: str) -> None:
    done = remnant(installed, "run", f"data={name}", "tasks=2", "--dry-run")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    if name != "bear":
        assert "bear-pictures" in done.stderr


def test_one_that_is_wrong_does_not_hide_the_others(installed: Path) -> None:
    shown = remnant(installed, "list", "data")
    assert shown.returncode == 0, shown.stderr
    assert "four kinds of bears" in shown.stdout
    assert "importing it failed" in " ".join(shown.stdout.split())
    assert "handwritten digits" in shown.stdout  # a name of this package stays its own
    assert "digits of bear-pictures not used" in " ".join(shown.stdout.split())
    assert "[/red] ones" in shown.stdout


def test_two_packages_with_one_name_are_both_named(
    installed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    info = tmp_path_factory.mktemp("other") / "more_bears-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more-bears\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[remnant.data]\nbears = bears:BEARS\n")
    both = Path(os.pathsep.join([str(installed), str(info.parent)]))
    done = remnant(both, "run", "data=bears", "tasks=2", "--dry-run")
    assert "one package with a data set of this name, found bear-pictures, more-bears" in done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [1, 2, 2]}, r"shape: expected a tuple of lengths, got \[1, 2, 2\]"),
        ({"shape": (1, 0, 2)}, "shape: expected a tuple of lengths"),
        ({"classes": ("a",)}, "classes: expected a tuple of two names or more"),
        ({"superclass": (0,)}, "superclass: expected none, or one for each of 2 classes, got 1"),
        ({"mistaken_for": {0: 7}}, r"mistaken_for: expected classes from 0 to 1, got \[0, 7\]"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(SPEC, **change)


def test_inputs_that_are_not_finite_are_refused() -> None:
    x = np.full((4, 1, 2, 2), np.nan, np.float32)
    with pytest.raises(RemnantError, match="finite training inputs"):
        arrays(replace(SPEC, dtype=torch.float32), x, Y, x, Y)


SPEC = Spec(name="tiny", shape=(1, 2, 2), classes=("a", "b"), view=View((0.5,), (0.3,), 0, flip=False))
X, Y = np.zeros((4, 1, 2, 2), np.uint8), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((X[:, 0], Y, X, Y), r"training inputs \(N, 1, 2, 2\) of uint8, got \(4, 2, 2\) of uint8"),
        ((X, Y, X.astype(float), Y), r"test inputs .* got \(4, 1, 2, 2\) of float64"),
        ((X, Y[:3], X, Y), r"4 training labels, got \(3,\)"),
        ((X, Y, X, Y + 1), "test labels from 0 to 1, got 1 to 2"),
        ((X, Y / 2, X, Y), "training labels that are whole numbers, got float64"),
        ((X, Y, X[:0], Y[:0]), "test inputs, got none"),
    ],
)
def test_arrays_that_are_not_what_the_spec_says_are_refused(
    rows: tuple[np.ndarray, ...], words: str
) -> None:
    with pytest.raises(RemnantError, match=f"tiny: expected {words}"):
        arrays(SPEC, *rows)
