"""The files of a finished run, which are written after its last task."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from remnant.config import Config
from remnant.experiment import evaluate
from remnant.experiment.checkpoint import History
from remnant.experiment.loggers.metrics_file import metrics_lines
from remnant.experiment.result import buffer_file, result_file, sha256, summarise
from remnant.methods.protocol import TaskLearner
from remnant.models.model import FILE as MODEL, model_file
from remnant.stream import Stream
from remnant.suspects.collected import Collected
from remnant.suspects.table import Scored, scored, suspects_file


def write_results(
    write: Callable[[str, bytes], None],
    config: Config,
    stream: Stream,
    learner: TaskLearner,
    history: History,
    statistics: Collected,
) -> None:
    """Write all files of a finished run; result.json, which has the hashes of the others, is the last one."""
    evidence = statistics.evidence(stream.tasks, learner.predict)
    suspects = scored(evidence) if evidence else None
    contents = {"config.toml": config.toml().encode(), "metrics.jsonl": metrics_lines(history.records)}
    hashes = {}
    for name, content in [*contents.items(), *_of_learner(config, stream, learner, suspects)]:
        write(name, content)
        hashes[name] = sha256(content)
    result = summarise(config, stream, history)
    result["suspects"] = None if suspects is None else evaluate.suspects_report(suspects, stream, evidence)
    write("result.json", result_file(result, hashes))


def _of_learner(
    config: Config, stream: Stream, learner: TaskLearner, suspects: Scored | None
) -> Iterator[tuple[str, bytes]]:
    for name, buffer in learner.buffers().items():
        if len(buffer):
            yield f"{name}.safetensors", buffer_file(learner, buffer, stream)
    spec = replace(config.data_spec, classes=stream.spec.classes)  # raw inputs; classes in order of arrival
    yield MODEL, model_file(learner.network(), config, spec)
    if suspects is not None:
        yield "suspects.csv", suspects_file(suspects, stream, learner.buffers())
