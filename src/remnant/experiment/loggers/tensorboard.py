"""TensorBoard: losses, purity, separation and accuracies as event files in the run folder."""

from typing import Any

from remnant.errors import RemnantError
from remnant.experiment.loggers import Logger, RunStart
from remnant.methods.protocol import StepDone


class TensorBoard(Logger):
    """Writes scalars to RUN/tensorboard, with the number of finished steps on the x axis."""

    def __init__(self) -> None:
        """Import TensorBoard now, so that a missing package is reported before the run starts."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RemnantError(
                "TensorBoard requires the package tensorboard, which is not installed. "
                "Install it: pip install 'remnant[tensorboard]'."
            ) from error
        self._new_writer = SummaryWriter

    def start(self, run: RunStart) -> None:
        """Open the event file; events after the resumed step are discarded."""
        self._step = run.steps
        self._writer = self._new_writer(str(run.folder / "tensorboard"), purge_step=run.steps + 1)

    def step(self, event: StepDone, purity: float | None) -> None:
        """Write the loss of a step and the purity of the buffer."""
        self._step += 1
        self._write(f"loss/{event.work}", event.loss)
        self._write("buffer/purity", purity)

    def record(self, record: dict[str, Any]) -> None:
        """Write the metrics of an epoch or a task."""
        if record["event"] == "epoch":
            for name in ("separation", "loss_clean", "loss_noisy"):
                self._write(f"buffer/{name}", record[name])
            for name, value in (record["stream"] or {}).items():
                self._write(f"stream/{name}", value)
            self._write("epoch/loss", record["loss"])
        if record["event"] == "task":
            for number, value in enumerate(record["accuracy"]):
                self._write(f"accuracy/task {number + 1}", value)
            self._write("accuracy/mean", sum(record["accuracy"]) / len(record["accuracy"]))

    def _write(self, name: str, value: float | None) -> None:
        if value is not None:
            self._writer.add_scalar(name, value, self._step)

    def end(self) -> None:
        """Flush and close the event file."""
        self._writer.close()
