import sys
import time
from pathlib import Path

import pytest
from conftest import tiny_config
from run_helpers import StopAt, assert_identical, records

from remnant.errors import Interrupted, RemnantError
from remnant.experiment.loggers.tensorboard import TensorBoard
from remnant.experiment.run import execute
from remnant.experiment.runner import Options

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

CONFIG = {"epochs": 2, "tasks": 2, "consolidation": {"name": "buffer-fit", "epochs": 2, "batch": 8}}


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return steps and values of each tag."""
    events = accumulator.EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_every_step_epoch_and_task_is_written(tmp_path: Path) -> None:
    logger = TensorBoard()
    folder = execute(tiny_config(**CONFIG), Options(out=tmp_path), [logger])
    assert logger._writer.all_writers is None  # its files are closed
    found = scalars(folder)
    works = ("loss/forget", "loss/learn", "loss/consolidate")
    steps = sorted(step for tag in works for step, _ in found[tag])
    assert steps == list(range(1, len(steps) + 1))
    # The buffer is empty until the first sample is inserted, and its purity unknown.
    assert len(found["buffer/purity"]) == len(steps)
    last = records(folder, "task")[-1]["accuracy"]
    assert found["accuracy/task 1"][-1] == (steps[-1], pytest.approx(last[0]))
    assert found["accuracy/task 2"] == [(steps[-1], pytest.approx(last[1]))]
    assert [value for _, value in found["accuracy/mean"]] == pytest.approx(
        [sum(task["accuracy"]) / len(task["accuracy"]) for task in records(folder, "task")]
    )
    epochs = records(folder, "epoch")
    assert [value for _, value in found["epoch/loss"]] == pytest.approx([e["loss"] for e in epochs])
    for name in epochs[0]["stream"]:
        written = [e["stream"][name] for e in epochs if e["stream"] and e["stream"][name] is not None]
        assert [value for _, value in found[f"stream/{name}"]] == pytest.approx(written)
    known = [e["separation"] for e in epochs if e["separation"] is not None]
    assert [value for _, value in found["buffer/separation"]] == pytest.approx(known)


@pytest.mark.slow
def test_a_resumed_run_has_each_step_once(tmp_path: Path) -> None:
    config = tiny_config(**CONFIG)
    whole = execute(config, Options(out=tmp_path / "whole"), [TensorBoard()])
    expected = scalars(whole)
    ends = sorted({step for tag in ("epoch/loss", "accuracy/mean") for step, _ in expected[tag]})
    last = ends[-1]
    for stop in (1, 5, ends[0], ends[0] + 1, last):  # in an epoch, at its end, after it, at the very end
        out = tmp_path / f"cut-{stop}"
        with pytest.raises(Interrupted):
            execute(config, Options(out=out), [TensorBoard(), StopAt(stop)])
        time.sleep(1.01)  # TensorBoard orders the files of one process by the second in their names
        cut = execute(config, Options(out=out), [TensorBoard()])
        assert_identical(whole, cut)
        assert scalars(cut) == expected


class PowerCut(StopAt):
    """Ends the run after a number of steps, without a checkpoint."""

    def step(self, *args: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("power cut")


def test_steps_after_the_last_checkpoint_are_written_again_and_appear_once(tmp_path: Path) -> None:
    config = tiny_config(**CONFIG)
    expected = scalars(execute(config, Options(out=tmp_path / "whole"), [TensorBoard()]))

    with pytest.raises(Interrupted):
        execute(config, Options(out=tmp_path / "cut"), [TensorBoard(), StopAt(5)])
    with pytest.raises(RemnantError, match="power cut"):  # without a checkpoint of the last three steps
        execute(config, Options(out=tmp_path / "cut"), [TensorBoard(), PowerCut(3)])
    assert scalars(execute(config, Options(out=tmp_path / "cut"), [TensorBoard()])) == expected


def test_a_run_that_starts_again_because_it_was_never_saved_has_each_step_once(tmp_path: Path) -> None:
    config = tiny_config(**CONFIG)
    expected = scalars(execute(config, Options(out=tmp_path / "whole"), [TensorBoard()]))

    with pytest.raises(RuntimeError, match="power cut"):
        execute(config, Options(out=tmp_path / "cut"), [TensorBoard(), PowerCut(3)])
    assert scalars(execute(config, Options(out=tmp_path / "cut"), [TensorBoard()])) == expected


def test_a_missing_package_is_an_error_before_the_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch.utils.tensorboard", "tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RemnantError, match=r"pip install 'remnant\[tensorboard\]'"):
        TensorBoard()
