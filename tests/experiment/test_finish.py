"""The files of a finished run."""

from conftest import tiny_config
from run_helpers import RunIn, result

from remnant.experiment.result import sha256


def test_every_file_of_a_finished_run_has_its_hash_in_the_results(run_in: RunIn) -> None:
    folder = run_in(tiny_config(tasks=2, epochs=2))
    names = {path.name for path in folder.iterdir() if path.is_file()}
    hashes = result(folder)["files"]
    assert names - {"result.json", ".lock"} == hashes.keys()
    assert all(sha256((folder / name).read_bytes()) == expected for name, expected in hashes.items())
