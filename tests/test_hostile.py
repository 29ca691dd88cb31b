"""Files of someone else: what fuzzing and review found, and a short run of the fuzzer."""

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from run_folders import finished, write_run

from remnant.data.nw_ucla import FILE as NW_UCLA, load_nw_ucla
from remnant.data.own import parse_own_data
from remnant.errors import RemnantError
from remnant.experiment.checkpoint import pack, unpack
from remnant.experiment.result import read_result, result_file
from remnant.noise.from_file import read_labels
from remnant.report.tables import find_metrics, make_table
from remnant.report.tables.formats import comma_separated
from remnant.suspects.table import Suspect, csv_file

sys.path.insert(0, str(Path(__file__).parents[1]))
from fuzz.__main__ import fuzz
from fuzz.targets import RUN, TARGETS, suspects
from remnant.report.audit.samples import read_doubts


def test_an_array_with_a_long_header_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }".ljust(9000)  # seconds in numpy
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("labels.npy", content)
    with zipfile.ZipFile(tmp_path / NW_UCLA, "w") as archive:
        archive.writestr("joints.npy", content)
    readers = (lambda: read_labels(tmp_path / "a.npy", ""), lambda: read_labels(tmp_path / "a.npz", "labels"))
    for read in (*readers, lambda: load_nw_ucla(tmp_path)):
        with pytest.raises(RemnantError, match=r"Header info length \(9000\) is large"):
            read()


@pytest.mark.parametrize(
    "change",
    [{"settings": []}, {"settings": 1}, {"pretrained": 0}, {"pretrained": [[]]}, {"spec": {"shape": ["x"]}}],
)
def test_a_model_whose_description_has_values_of_other_types_is_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    (content,) = TARGETS["model"].seeds(tmp_path)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    description = json.loads(header["__metadata__"]["remnant"])
    description |= {"spec": description["spec"] | change["spec"]} if "spec" in change else change
    header["__metadata__"]["remnant"] = json.dumps(description)
    text = json.dumps(header).encode()
    with pytest.raises(RemnantError, match="expected"):
        TARGETS["model"].parse(tmp_path, len(text).to_bytes(8, "little") + text + content[8 + length :])


def test_a_saved_learner_whose_state_does_not_fit_is_refused(tmp_path: Path) -> None:
    (content,) = TARGETS["learner"].seeds(tmp_path)
    state = unpack(content)
    state["learner"] = {"net": 1}
    with pytest.raises(RemnantError, match=r"its content does not fit .*Learn the tasks again"):
        TARGETS["learner"].parse(tmp_path, pack(state))


def test_a_saved_learner_with_a_huge_id_in_its_buffer_is_refused(tmp_path: Path) -> None:
    (content,) = TARGETS["learner"].seeds(tmp_path)
    state = unpack(content)
    state["learner"]["buffer"]["id"][0] = 2**50
    with pytest.raises(RemnantError, match="the buffer has the id 1,125,899,906,842,624"):
        TARGETS["learner"].parse(tmp_path, pack(state))


def test_a_carriage_return_in_a_name_starts_no_row_with_a_formula() -> None:
    name = "cat\r=cmd()"
    table = csv_file([Suspect(0, name, 1, True, 0.1, name, name, False)])
    assert b"\r" not in table
    assert len(table.splitlines()) == 2


def test_a_cell_of_suspects_without_an_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "suspects.csv").write_bytes(suspects() + b'"' + b"x" * 200_000)
    with pytest.raises(RemnantError, match="expected a row of a table"):
        read_doubts(tmp_path / "suspects.csv", RUN.data, RUN.observed)


def test_a_result_whose_square_is_infinite_is_refused() -> None:
    with pytest.raises(RemnantError, match="expected a number as faa, got 1e\\+308"):
        make_table([finished(faa=1e308), finished(seed=1)], find_metrics(["faa"]))


@pytest.mark.parametrize("name", ["/etc/passwd", "../other/model.safetensors", ".."])
def test_results_cannot_name_files_outside_of_the_run_folder(tmp_path: Path, name: str) -> None:
    folder = write_run(tmp_path / "run", finished())
    (folder / "result.json").write_bytes(result_file(finished().result, {name: "0"}))
    with pytest.raises(RemnantError, match="names in the run folder"):
        read_result(folder)


def test_texts_of_a_csv_table_are_no_formulas_and_numbers_stay_numbers() -> None:
    runs = [finished("=cmd()", faa=-5.0), finished("er", faa=2.0)]
    text = comma_separated(make_table(runs, find_metrics(["faa"])))
    assert ",'=cmd()," in text
    assert ",-5.0," in text


def test_results_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(RemnantError, match="expected a number as faa, got 'many'"):
        make_table([finished(faa="many")], find_metrics(["faa"]))  # type: ignore[arg-type]


def test_a_table_may_list_a_name_that_is_too_long_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"path,label\n{'x' * 3000},a\nb.png,b\nc.png,a\nd.png,b\n")
    assert parse_own_data(f"table:{tmp_path / 't.csv'}").side == 64


def test_labels_too_large_for_an_integer_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.array([0.0, 1e30]))
    with pytest.raises(RemnantError, match="expected one integer per training sample"):
        read_labels(tmp_path / "y.npy", "")


@pytest.mark.parametrize(("old", "new"), [(b"0.1", b"many"), (b",cat,false", b",bird,false")])
def test_a_damaged_row_of_suspects_is_refused(tmp_path: Path, old: bytes, new: bytes) -> None:
    (tmp_path / "suspects.csv").write_bytes(suspects().replace(old, new))
    with pytest.raises(RemnantError, match="expected a score and a suggested class"):
        read_doubts(tmp_path / "suspects.csv", RUN.data, RUN.observed)


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in ("model", "learner")])
def test_changed_inputs_are_accepted_or_refused(tmp_path: Path, name: str) -> None:
    outcome = fuzz(TARGETS[name], 1, 0, 20, 2.0, tmp_path)
    assert outcome.findings == {}
    assert outcome.accepted  # the first input is valid
