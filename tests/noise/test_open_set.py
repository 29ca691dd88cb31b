from dataclasses import replace
from pathlib import Path
from signal import SIGKILL

import numpy as np
import pytest
import torch
from conftest import tiny_config, tiny_data
from hypothesis import given, settings, strategies as st
from noise_helpers import rng
from run_helpers import assert_identical, result, run_to_end, run_to_step
from typer.testing import CliRunner

from remnant.cli.data import app
from remnant.config import resolve
from remnant.data import Dataset, load
from remnant.data.dataset import UNKNOWN, InMemory, MemoryMapped
from remnant.errors import MissingFiles, RemnantError
from remnant.experiment.build import build_dataset, build_stream
from remnant.noise import OpenSet
from remnant.noise.open_set import GRID, choose, draw_images, fitted, mosaics, with_inputs
from remnant.report.html.gallery import gallery
from remnant.report.runs import final_buffer, find_runs
from remnant.stream import make_stream


def images(data: Dataset) -> torch.Tensor:
    return data.train.take(torch.arange(len(data.train)))


def test_an_exact_fraction_of_each_class_is_of_no_class() -> None:
    y = np.array([0] * 10 + [1] * 5 + [2] * 3)
    chosen = choose(y, 0.4, rng())
    # round(4.0), round(2.0), round(1.2)
    assert np.bincount(y[chosen]).tolist() == [4, 2, 1]
    assert chosen.tolist() == sorted(set(chosen.tolist()))


def test_samples_of_no_class_keep_their_label_and_have_no_true_label() -> None:
    data = tiny_data()  # 6 classes of 12 samples
    found = OpenSet(0.25)(data, rng())
    assert np.array_equal(found.y, data.y)
    assert found.truth is not None
    is_open = found.truth == UNKNOWN
    assert np.bincount(data.y[is_open]).tolist() == [3] * 6
    assert np.array_equal(found.truth[~is_open], data.y[~is_open])
    assert not found.is_clean
    assert data.is_clean  # the original is not modified


@given(st.floats(0, 1), st.integers(0, 5), st.booleans())
@settings(max_examples=30, deadline=None)
def test_streams_still_partition_the_data_and_other_samples_are_untouched(
    rate: float, seed: int, is_mapped: bool
) -> None:
    data = tiny_data()
    if is_mapped:
        data = replace(data, train=MemoryMapped(images(data).numpy(), np.arange(72)))
    before = images(data).clone()
    found, again = (OpenSet(rate)(data, rng(seed)) for _ in range(2))
    assert found.truth is not None
    is_open = torch.from_numpy(found.truth == UNKNOWN)
    assert int(is_open.sum()) == 6 * round(rate * 12)
    assert torch.equal(images(found), images(again))
    assert torch.equal(images(found)[~is_open], before[~is_open])
    assert torch.equal(images(data), before)
    stream = make_stream(found, found.y, range(6), [2, 2, 2], 0.0, rng())
    assert sorted(torch.cat([task.id for task in stream.tasks]).tolist()) == list(range(72))
    for task in stream.tasks:
        assert torch.equal(task.take(torch.arange(len(task))).x, images(found)[task.id])
    assert stream.noise_rate == pytest.approx(round(rate * 12) / 12)


def test_which_samples_are_replaced_depends_on_the_seed() -> None:
    first, other = (OpenSet(0.5)(tiny_data(), rng(seed)).truth for seed in (1, 2))
    assert not np.array_equal(first, other)  # type: ignore[arg-type]


def test_each_patch_of_a_mosaic_is_cut_from_an_image() -> None:
    # Image i has the pixels 16 * i + 0 ... 15: a patch of one pixel shows its image and its place.
    x = torch.arange(48, dtype=torch.uint8).reshape(3, 1, 4, 4)
    found = mosaics(InMemory(x), (1, 4, 4), 200, rng())
    counts = torch.bincount(found.flatten().long(), minlength=48)
    assert counts.sum() == 200 * GRID**2
    assert counts.min() > 35  # 66.7 expected: every image and every place
    assert counts.max() < 105


def test_patches_of_a_mosaic_have_a_quarter_of_the_side() -> None:
    x = torch.tensor([10, 200], dtype=torch.uint8)[:, None, None, None].expand(2, 3, 8, 12).contiguous()
    found = mosaics(InMemory(x), (3, 8, 12), 5, rng())
    patches = found.unfold(2, 2, 2).unfold(3, 3, 3)  # (5, 3, 4, 4, 2, 3)
    assert torch.equal(patches.amin((1, 4, 5)), patches.amax((1, 4, 5)))  # each is of one colour
    assert {10, 200} == set(found.unique().tolist())


@pytest.mark.parametrize("side", [1, 3, 7])
def test_mosaics_have_any_size(side: int) -> None:
    x = torch.full((2, 1, side, side), 9, dtype=torch.uint8)
    assert torch.equal(mosaics(InMemory(x), (1, side, side), 3, rng()), x[:1].expand(3, -1, -1, -1))


def test_mosaics_do_not_depend_on_how_many_images_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source = tiny_data().train
    found = mosaics(source, (1, 6, 6), 20, rng())
    monkeypatch.setattr("remnant.noise.open_set.CHUNK", 7)
    assert torch.equal(mosaics(source, (1, 6, 6), 20, rng()), found)


def test_images_of_another_dataset_are_resized_and_get_its_channels() -> None:
    x = torch.tensor([[[[0, 40], [80, 120]]]], dtype=torch.uint8)
    assert fitted(x, (1, 2, 2)).tolist() == x.tolist()
    assert fitted(x, (3, 1, 1)).tolist() == [[[[60]], [[60]], [[60]]]]


def test_images_of_another_dataset_are_drawn_without_repetition_if_there_are_enough() -> None:
    source = InMemory(torch.arange(5, dtype=torch.uint8).reshape(5, 1, 1, 1))
    assert sorted(draw_images(source, (1, 1, 1), 5, rng()).flatten().tolist()) == [0, 1, 2, 3, 4]
    assert draw_images(source, (1, 1, 1), 8, rng()).shape == (8, 1, 1, 1)
    assert draw_images(source, (1, 1, 1), 0, rng()).shape == (0, 1, 1, 1)


def test_samples_can_be_replaced_by_images_of_digits() -> None:
    data, digits = tiny_data(), fitted(images(load("digits", None)), (1, 6, 6))
    found = OpenSet(0.5, source="digits")(data, rng())
    assert found.truth is not None
    known = {image.numpy().tobytes() for image in digits}
    assert [x.numpy().tobytes() in known for x in images(found)] == (found.truth == UNKNOWN).tolist()


def test_replaced_inputs_follow_the_samples_of_a_selection() -> None:
    data = tiny_data()
    mapped = MemoryMapped(images(data).numpy(), np.arange(72))
    new = torch.tensor([1, 2, 3], dtype=torch.uint8)[:, None, None, None].expand(3, 1, 6, 6)
    source = with_inputs(mapped, np.array([5, 10, 20]), new)
    assert len(source) == 72
    part = source.select(np.array([20, 0, 5]))
    assert len(part) == 3
    expected = torch.cat([new[2:], images(data)[:1], new[:1]])
    assert torch.equal(part.take(torch.arange(3)), expected)
    assert torch.equal(source.take(torch.tensor([20, 0, 5])), expected)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"noise": "open-set:1.5"}, "noise: expected a noise rate in [0, 1], got 1.5"),
        ({"noise": "open-set:40"}, "for 40 % write 0.4"),
        ({"noise": {"name": "open-set", "source": "cifar1"}}, "unknown dataset 'cifar1'; did you mean"),
        ({"noise": {"name": "open-set", "source": "digits"}}, "another dataset of images, got digits, the"),
        ({"noise": {"name": "open-set", "source": "nw-ucla"}}, "got nw-ucla, a dataset of skeletons"),
        (
            {"noise": "open-set:0.4", "data": "nw-ucla", "net": "efficientgcn-b0"},
            "open-set noise needs images, but samples of nw-ucla are skeletons",
        ),
    ],
)
def test_invalid_settings_are_explained(given: dict[str, object], words: str) -> None:
    with pytest.raises(RemnantError) as error:
        resolve(given)
    assert words in str(error.value)


def test_missing_files_of_another_dataset_are_not_downloaded(tmp_path: Path) -> None:
    data = replace(tiny_data(), folder=tmp_path)
    with pytest.raises(MissingFiles, match=r"expected the files of cifar100, found none.*data get cifar100"):
        OpenSet(0.5, source="cifar100")(data, rng())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"index": np.arange(72)}, "got another index"),
        ({"train": tiny_data(rows=2).train}, "got 12 training"),
    ],
)
def test_a_noise_that_returns_a_dataset_changes_only_training_samples(
    changes: dict[str, object], words: str
) -> None:
    data = tiny_data()
    config = resolve({"data": data, "tasks": 3, "noise": lambda dataset, rng: replace(dataset, **changes)})
    with pytest.raises(RemnantError, match=words):
        build_dataset(config, None)


def test_the_command_shows_the_noise_rate_of_each_label(tmp_path: Path) -> None:
    arguments = ["noise", "digits", "--noise", "open-set:0.3", "--per-class", "20"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "digits, noise open-set:0.3, seed 0: 60 of 200 labels are noisy, 30.00 %"
    assert lines[3] == "  0 0              20   30.0 %"
    assert "of no class: there is no transition matrix" in lines[-1]
    failed = CliRunner().invoke(app, [*arguments, "--plot", str(tmp_path / "a.svg")])
    assert "an unknown class or of no class. Omit --plot" in str(failed.exception)


def test_buffer_metrics_suspects_and_galleries_count_samples_of_no_class_as_noisy(tmp_path: Path) -> None:
    config = tiny_config(noise="open-set:0.5")
    folder, stream = run_to_end(config, tmp_path), build_stream(config, None)
    found = result(folder)
    assert found["noise_rate"] == pytest.approx(50)  # percent
    (run,) = find_runs([folder])
    stored = final_buffer(run)
    assert stored is not None
    is_open = stored["truth"] == UNKNOWN
    assert found["buffer"]["noisy"] == int(is_open.sum()) > 0
    assert found["buffer"]["purity"] == pytest.approx(100 * (1 - is_open.double().mean().item()))
    id = torch.searchsorted(stream.index, stored["index"])
    assert torch.equal(stored["x"], stream.tasks[0].source.take(id))
    assert found["suspects"]["auroc"] is not None
    assert found["suspects"]["label_correction"] is None  # there is no true label to suggest
    shown = gallery("aer-abs", run, 60)
    assert shown is not None
    assert sum(t.truth == "another or none" for t in shown.thumbnails) == int(is_open.sum())


def test_a_killed_run_with_samples_of_no_class_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    config = tiny_config(noise="open-set:0.4")
    assert run_to_step(config, tmp_path / "killed", 7) == SIGKILL
    assert_identical(run_to_end(config, tmp_path / "killed"), run_to_end(config, tmp_path / "whole"))
