"""A run on a device reads few values from it: reading one waits for all that is being computed."""

from pathlib import Path

import pytest
import torch
from placement_runs import short
from pretend_device import NAME, register
from run_helpers import RunIn, StopAt
from torch import Tensor

from remnant.engine import losses
from remnant.errors import RemnantError
from remnant.experiment import checkpoint
from remnant.experiment.loggers import Logger
from remnant.experiment.run import execute
from remnant.experiment.runner import Options
from remnant.methods.protocol import StepDone


@pytest.fixture(autouse=True, scope="module")
def device() -> torch.device:
    return register()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Return a list of the losses, scalars on the device, that are read one by one."""
    found, item = [], Tensor.item

    def counted(self: Tensor) -> float:
        if self.device.type == NAME and self.is_floating_point() and not self.dim():
            found.append(self)
        return item(self)

    monkeypatch.setattr(Tensor, "item", counted)
    return found


class Losses(Logger):
    """Collects the losses of steps."""

    def __init__(self) -> None:
        self.losses: list[float | None] = []

    def step(self, event: StepDone, purity: float | None) -> None:
        self.losses.append(event.loss)


@pytest.mark.parametrize("method", ["er-ace", "er+coteaching", "spr", "cnll"])
@pytest.mark.slow
def test_steps_do_not_read_their_losses_one_by_one(method: str, reads: list[Tensor], tmp_path: Path) -> None:
    execute(short(method, device=NAME), Options(out=tmp_path), [])
    assert not reads
    torch.zeros((), device=NAME).item()
    assert len(reads) == 1


def test_loggers_get_the_last_loss_that_was_read(run_in: RunIn, tmp_path: Path) -> None:
    config = short("er-ace", tasks=1)
    loggers = Losses(), Losses()
    for name, logger in zip(("cpu", NAME), loggers, strict=True):
        execute(config.model_copy(update={"device": name}), Options(out=tmp_path), [logger])
    known, read = (logger.losses for logger in loggers)
    assert None not in known
    each = len(known) // 2  # two epochs
    assert each < losses.READ_EVERY
    assert read == [None] * each + [known[each - 1]] * each


def test_a_loss_that_is_not_finite_is_noticed_before_a_checkpoint_is_written(tmp_path: Path) -> None:
    config = short("er-ace", device=NAME, lr=1e30)
    with pytest.raises(RemnantError, match="the loss became nan"):
        execute(config, Options(out=tmp_path), [StopAt(6)])
    (folder,) = tmp_path.iterdir()
    assert not checkpoint.generations(folder / "checkpoint")
