import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from remnant.cli.data import app
from remnant.data import DATA, check, get, load
from remnant.errors import RemnantError
from remnant.transforms.image import ImageTransform


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REMNANT_DATA", raising=False)


def test_each_dataset_is_registered_under_the_name_in_its_spec() -> None:
    images = ["digits", "cifar10", "cifar100", "cifar100-coarse", "fashion-mnist"]
    photos = ["food101n", "food101n-val", "food101n-clean"]
    assert list(DATA) == [*images, "ntu60", "ntu60-xview", "nw-ucla", *photos]
    assert [name for name, entry in DATA.items() if entry.spec.are_images] == [*images, *photos]
    assert all(name == entry.spec.name for name, entry in DATA.items())


def test_there_is_a_mean_and_a_standard_deviation_for_each_channel() -> None:
    for entry in DATA.values():
        channels, transform = entry.spec.shape[0], entry.spec.transform
        if isinstance(transform, ImageTransform):
            assert len(transform.mean) == len(transform.std) == channels


def test_the_check_command_shows_instructions_for_a_manual_download(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["check", "nw-ucla", "--data-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "nw_ucla.npz: expected a file, found nothing" in result.output
    assert "nw-ucla: to repair it: put a file nw_ucla.npz into the data folder" in result.output


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "fashion-mnist", "ntu60", "food101n"])
def test_a_folder_that_cannot_be_accessed_is_an_error_with_its_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=r"found: File name too long|found n"):
        load(name, tmp_path / ("x" * 300))  # fails like a folder without permission, also for root


@pytest.mark.parametrize("use", [load, get, check])
def test_an_unknown_name_is_an_error_with_the_nearest_name(use: object, tmp_path: Path) -> None:
    assert callable(use)
    with pytest.raises(RemnantError, match=r"unknown dataset 'cifar_10'.*did you mean 'cifar10'"):
        use("cifar_10", tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "cifar100-coarse", "fashion-mnist"])
def test_loading_from_a_folder_without_the_files_is_an_error_with_the_download_command(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(RemnantError, match="expected a file, found nothing") as error:
        load(name, tmp_path)
    files = DATA[name].files
    assert files is not None
    assert f"remnant data get {files.name} --data-dir {tmp_path}" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_check_reports_every_file(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    (folder / "test").write_bytes(b"wrong")
    problems = {c.path.name: c.problem for c in check("cifar100", tmp_path)}
    assert problems == {
        "train": "expected a file, found nothing",
        "test": "expected md5 f0ef6b0ae62326f3e7ffdfab6717acfc, "
        "found 2bda2998d9b0ee197da142a0447f6725 (5 bytes)",
        "meta": "expected a file, found nothing",
    }


def test_digits_have_no_files() -> None:
    assert check("digits", None) == []
    assert get("digits", None) == "digits: nothing to download"


def test_the_check_command_fails_and_shows_the_repair_command_for_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"wrong")
    for names in (["cifar10"], []):
        result = CliRunner().invoke(app, ["check", *names, "--data-dir", str(tmp_path)])
        assert result.exit_code == 1
        assert "data_batch_1: expected md5 c99cafc152244af753f735de768cd75f, found" in result.output
        assert f"to repair it: remnant data get cifar10 --data-dir {tmp_path}" in result.output


def test_the_check_command_without_names_ignores_datasets_that_are_not_downloaded(
    tmp_path: Path,
) -> None:
    result = CliRunner().invoke(app, ["check", "--data-dir", str(tmp_path)])
    assert result.exit_code == 0
    assert result.output.count("not downloaded") == 3
    result = CliRunner().invoke(app, ["check", "cifar100-coarse", "--data-dir", str(tmp_path)])
    assert result.exit_code == 1


def test_commands_read_the_data_folder_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path))
    result = CliRunner().invoke(app, ["check", "cifar10"])
    assert str(tmp_path / "cifar-10-batches-py" / "test_batch") in result.output


def test_the_get_command_prints_what_it_did() -> None:
    result = CliRunner().invoke(app, ["get", "digits"])
    assert result.exit_code == 0
    assert "nothing to download" in result.output


@pytest.mark.parametrize("verb", ["get", "check"])
def test_help_shows_an_example(verb: str) -> None:
    result = CliRunner().invoke(app, [verb, "--help"])
    assert f"Example: remnant data {verb} cifar10" in result.output


def test_help_does_not_import_torch() -> None:
    code = "import sys, remnant.cli.data; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
