import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from remnant.data.pretrained import EFFICIENTNET_LITE0, read_json
from remnant.errors import RemnantError


def test_the_weights_are_those_that_torch_reads_and_the_package_is_not_imported() -> None:
    found = EFFICIENTNET_LITE0.read()
    assert EFFICIENTNET_LITE0.package not in sys.modules
    expected = torch.load(EFFICIENTNET_LITE0.path(), weights_only=True)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], value.numpy()) for name, value in expected.items())


def test_a_package_that_is_not_installed_is_a_sentence() -> None:
    with pytest.raises(RemnantError, match=r"no_such_package, which is not installed. .*remnant\[features\]"):
        replace(EFFICIENTNET_LITE0, package="no_such_package").read()


def test_a_changed_or_missing_file_is_a_sentence() -> None:
    with pytest.raises(RemnantError, match=r"expected a file with the sha256 0000.*, found 579344248a93e230"):
        replace(EFFICIENTNET_LITE0, sha256="0" * 64).read()
    with pytest.raises(RemnantError, match="found none"):
        replace(EFFICIENTNET_LITE0, file="gone.pth").read()


def test_a_damaged_json_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"size": 32}')
    assert read_json(str(tmp_path / "a.json")) == {"size": 32}
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(RemnantError, match=r"a\.json: expected a JSON file"):
        read_json(str(tmp_path / "a.json"))
