import re
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import Invoke


@pytest.mark.parametrize("words", [["data", "get", "digits"], ["data", "get", "digits", "--data-dir", "x"]])
def test_a_dataset_that_needs_no_files_has_nothing_to_download(
    invoke: Invoke, words: list[str], tmp_path: Path
) -> None:
    done = invoke(*words)
    assert done.code == 0
    assert "nothing to download" in done.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["get", "cifar"], "unknown dataset 'cifar'; did you mean 'cifar10'"),
        (["get", "ntu60"], "ntu60 cannot be downloaded"),
        (["check", "cifar"], "did you mean"),
        (["noise", "digits", "--noise", "symetric:0.4"], "did you mean 'symmetric'"),
        (["noise", "digit", "--noise", "symmetric:0.4"], "did you mean 'digits'"),
        (["noise", "digits", "--noise", "symmetric:0.4", "--plot", "x.png"], "ends with .svg"),
        (["noise", "digits", "--noise", "symmetric:0.4", "--plot", "no/x.svg"], "expected a writable file"),
        (["noise", "digits", "--noise", "symmetric:0.4", "--set", "seed=3"], "each setting once, got seed"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(
    invoke: Invoke, tmp_path: Path, words: list[str], message: str
) -> None:
    done = invoke("data", *words)
    assert done.code == 2
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


def test_missing_files_are_an_error_only_if_the_dataset_is_named(invoke: Invoke) -> None:
    every = invoke("data", "check", "--data-dir", "empty")
    assert every.code == 0
    assert re.search(
        r"cifar10: not downloaded; to download it: remnant data get cifar10 --data-dir", every.out
    )
    one = invoke("data", "check", "cifar10", "--data-dir", "empty")
    assert one.code == 1
    assert "cifar10: to repair it: remnant data get cifar10 --data-dir" in one.out
    assert "no files that can be checked" in invoke("data", "check", "digits").out


def test_the_transition_matrix_of_a_noise_is_printed_and_drawn(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("data", "noise", "digits", "--noise", "symmetric:0.4", "--plot", "noise.svg", "--seed", "3")
    assert done.code == 0
    assert done.out.startswith("digits, noise symmetric:0.4, seed 3: ")
    assert done.out.splitlines()[-1] == "noise.svg"
    assert (tmp_path / "noise.svg").read_text().startswith("<svg")
    again = invoke("data", "noise", "digits", "--type", "symmetric:0.4", "--seed", "3")
    assert done.out.startswith(again.out.rstrip("\n"))


def test_a_dataset_without_true_labels_has_no_transition_matrix(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("""
import remnant
x = [[[[c]]] for c in (0, 9, 0, 9)]
spec = remnant.Spec("mine", (1, 1, 1), ("a", "b"), remnant.ImageTransform((0.5,), (0.3,), 0, flip=False))
MINE = remnant.arrays(spec, x, [0, 1, 0, 1], x, [0, 1, 0, 1])
""")
    done = invoke("data", "noise", "mine.py:MINE", "--noise", "none")
    assert done.code == 2
    assert "mine.py:MINE: expected known true labels, found none" in done.err


def test_noise_of_vectors_and_of_unknown_true_classes_is_shown(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("""
import remnant, torch
from remnant.transforms.vector import VectorTransform
x = torch.zeros(4, 5)
spec = remnant.Spec("mine", (5,), ("a", "b"), VectorTransform(), dtype=torch.float32)
CLEAN = remnant.arrays(spec, x, [0, 1, 0, 1], x, [0, 1, 0, 1], truth=[0, 1, 0, 1])
GIVEN = remnant.arrays(spec, x, [0, 1, 0, 1], x, [0, 1, 0, 1], truth=[0, 1, 0, -1])
""")
    done = invoke("data", "noise", "mine.py:CLEAN", "--noise", "none")
    assert (done.code, done.err) == (0, "")
    given = invoke("data", "noise", "mine.py:GIVEN", "--noise", "none")
    assert given.code == 0
    assert given.out.startswith("mine.py:GIVEN, noise none, seed 0: 1 of 4 labels are noisy")


def test_settings_of_the_noise_and_the_subset_can_be_changed(invoke: Invoke, tmp_path: Path) -> None:
    np.savez(tmp_path / "labels.npz", a=np.zeros(1438, dtype=np.int64), b=np.ones(1438, dtype=np.int64))
    shown = [
        invoke("data", "noise", "digits", "--noise", "file:labels.npz", "--set", f"noise.key={key}").out
        for key in "ab"
    ]
    assert shown[0] != shown[1]
    assert "key=a" in shown[0]
    small = invoke("data", "noise", "digits", "--noise", "symmetric:0.4", "--per-class", "5").out
    assert "50" in small.splitlines()[0]
