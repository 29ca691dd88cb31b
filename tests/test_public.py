import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from conftest import TINY

import remnant


@pytest.mark.parametrize("name", dir(remnant))
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(remnant, name) is not None


def test_the_version_is_that_of_the_package() -> None:
    assert remnant.__version__ == version("remnant")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'learn'"):
        remnant.learn  # noqa: B018


@pytest.mark.parametrize(
    ("old", "new"), [("Memory", "Buffer"), ("Method", "Replay"), ("View", "ImageTransform")]
)
def test_an_old_name_is_an_attribute_error_with_the_new_name(old: str, new: str) -> None:
    with pytest.raises(AttributeError, match=rf"remnant\.{old} has been renamed: use remnant\.{new}"):
        getattr(remnant, old)
    assert old not in dir(remnant)


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, remnant; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_run_takes_two_lines_of_python(tmp_path: Path) -> None:
    settings = TINY | {"method": "er", "channels_last": False}
    folder = remnant.run(remnant.resolve(settings), out=tmp_path)
    assert json.loads((folder / "result.json").read_text())["method"] == "er"
    assert remnant.run("digits", out=tmp_path, **settings) == folder
