import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TINY

import remnant


@pytest.mark.parametrize("name", dir(remnant))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(remnant, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'learn'"):
        remnant.learn  # noqa: B018


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, remnant; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_run_takes_three_lines_of_python(tmp_path: Path) -> None:
    config = remnant.resolve(TINY | {"method": "er"})
    folder = remnant.run(config, remnant.Options(out=tmp_path))
    assert json.loads((folder / "result.json").read_text())["method"] == "er"
