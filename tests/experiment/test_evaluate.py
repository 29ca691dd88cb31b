import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import tiny_stream
from torch import Tensor

from remnant.buffer import Buffer
from remnant.experiment import evaluate
from remnant.methods.consolidation.division import Division
from remnant.methods.protocol import Event
from remnant.stream import Batch, Stream, Task


class Oracle:
    """Predicts the class from the brightness of a tiny image, plus an offset."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset

    def predict(self, x: Tensor) -> Tensor:
        label = (x.double().mean((1, 2, 3)) / 30).long()
        return torch.nn.functional.one_hot((label + self.offset) % 6, 6).double()

    def learn(self, task: Task) -> Iterator[Event]:
        yield from ()

    def buffers(self) -> dict[str, Buffer]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def stored(stream: Stream, samples: list[int], tasks: list[int]) -> Buffer:
    """Return a buffer that holds these samples, as inserted during these tasks."""
    buffer = Buffer(len(samples), stream.spec.shape)
    for slot, (i, task) in enumerate(zip(samples, tasks, strict=True)):
        id = torch.tensor([i])
        batch = Batch(stream.tasks[0].source.take(id), stream.observed[id], id)
        buffer.put(torch.tensor([slot]), batch, task)
    assert len(buffer) == len(samples)
    return buffer


def test_a_perfect_learner_has_100_percent_everywhere() -> None:
    found = evaluate.accuracy(Oracle(), tiny_stream(noise=0.5).tests)
    assert found.class_incremental == [100, 100, 100]
    assert found.task_incremental == [100, 100, 100]
    assert found.per_class == dict.fromkeys(range(6), 100)


def test_a_learner_that_is_one_class_off_has_no_correct_prediction() -> None:
    found = evaluate.accuracy(Oracle(offset=1), tiny_stream().tests)
    assert found.class_incremental == [0, 0, 0]


def test_task_incremental_accuracy_considers_only_the_classes_of_the_task() -> None:
    # Two classes off: the logits of the classes of the task are equal, and argmax returns the first.
    found = evaluate.accuracy(Oracle(offset=2), tiny_stream().tests)
    assert found.class_incremental == [0, 0, 0]
    assert found.task_incremental == pytest.approx([50, 50, 50])


def test_the_accuracy_of_a_class_is_measured_in_all_tasks_that_have_it() -> None:
    first, second, _ = tiny_stream().tests
    wrong = replace(second, classes=(0, 1), y=torch.zeros_like(second.y))  # never predicted there
    found = evaluate.accuracy(Oracle(), (first, wrong))
    counts = [int((test.y == 0).sum()) for test in (first, wrong)]
    assert found.per_class == {0: pytest.approx(100 * counts[0] / sum(counts)), 1: 100}


def test_a_buffer_is_compared_with_the_true_labels() -> None:
    stream = tiny_stream(noise=0.5)
    clean = torch.nonzero(stream.truth == stream.observed).flatten()[:6].tolist()
    noisy = torch.nonzero(stream.truth != stream.observed).flatten()[:2].tolist()
    report = evaluate.buffer_report(stored(stream, clean + noisy, [0] * 6 + [1] * 2), stream, task=2)
    assert report["size"] == 8
    assert report["noisy"] == 2
    assert report["purity"] == 75
    assert report["purity_per_task"] == {"0": 100, "1": 0}
    assert report["duplicates"] == 0
    assert report["purity_distinct"] == 75
    assert sum(report["class_counts"].values()) == 8
    for name, purity in report["purity_per_class"].items():
        scale = report["class_counts"][name] * 6 / 8
        assert report["purity_per_class_scaled"][name] == pytest.approx(scale * purity)


def test_an_empty_buffer_has_no_purity() -> None:
    report = evaluate.buffer_report(Buffer(4, (1, 6, 6)), tiny_stream(), task=1)
    assert report["size"] == 0
    assert report["purity"] is None
    assert report["balance"] is None


def test_balance_is_over_the_classes_seen_so_far() -> None:
    stream = tiny_stream(noise=0.0)
    buffer = stored(stream, [0, 1, 12, 13], [0] * 4)  # two samples of each of the first two classes
    assert evaluate.buffer_report(buffer, stream, task=0)["balance"] == pytest.approx(1)
    later = evaluate.buffer_report(buffer, stream, task=2)["balance"]
    assert later == pytest.approx(math.log(2) / math.log(6))


def test_a_division_is_compared_with_the_true_labels() -> None:
    stream = tiny_stream(noise=0.5)
    clean = torch.nonzero(stream.truth == stream.observed).flatten()[:6].tolist()
    noisy = torch.nonzero(stream.truth != stream.observed).flatten()[:3].tolist()
    buffer = stored(stream, clean + noisy, [0] * 9)
    # Trusted: four of the six clean labels, and one of the three noisy ones; 1/2 is not trusted.
    first = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.1, 0.9, 0.2, 0.0])
    division = Division(torch.stack([first, torch.ones(9)]), ("", "losses too equal"))
    report, fallback = evaluate.division_report(division, buffer, stream)
    assert report == {
        "trusted": 5,
        "label_correction": None,  # the division has no new labels
        "precision": pytest.approx(80),
        "recall": pytest.approx(100 * 4 / 6),
        "f1": pytest.approx(200 * 4 / 11),
        "noisy_precision": pytest.approx(50),
        "noisy_recall": pytest.approx(100 * 2 / 3),
        "noisy_f1": pytest.approx(200 * 2 / 7),
    }
    assert fallback == {"fallback": "losses too equal"}


def test_label_correction_is_over_the_noisy_samples_with_a_new_label() -> None:
    stream = tiny_stream(noise=0.5)
    noisy = torch.nonzero(stream.truth != stream.observed).flatten()[:4]
    buffer, truth = stored(stream, noisy.tolist(), [0] * 4), stream.truth[noisy]
    # The first label is trusted. Of the others, two are predicted as their true class.
    clean, predicted = torch.tensor([[0.9, 0.1, 0.1, 0.1]]), truth.clone()
    predicted[3] = stream.observed[noisy[3]]
    (untrusted,) = evaluate.division_report(Division(clean, ("",), None, predicted), buffer, stream)
    assert untrusted["label_correction"] == pytest.approx(200 / 3)
    relabel = torch.tensor([False, False, True, True])  # the second one is used without a label
    (relabelled,) = evaluate.division_report(Division(clean, ("",), relabel, predicted), buffer, stream)
    assert relabelled["label_correction"] == 50


def test_separation_is_perfect_for_a_learner_that_predicts_the_true_labels() -> None:
    stream = tiny_stream(noise=0.5)
    buffer = stored(stream, list(range(20)), [0] * 20)
    found = evaluate.separation(Oracle(), buffer, stream, task=1)
    # One-hot logits: the loss is log(e + 5) - 1 if the prediction is the label, and log(e + 5) if not.
    low, high = math.log(math.e + 5) - 1, math.log(math.e + 5)
    assert found == {"separation": 1, "loss_clean": pytest.approx(low), "loss_noisy": pytest.approx(high)}


def test_separation_is_over_the_samples_of_past_tasks_only() -> None:
    stream = tiny_stream(noise=0.5)
    buffer = stored(stream, list(range(20)), [1] * 20)
    assert set(evaluate.separation(Oracle(), buffer, stream, task=1).values()) == {None}


def test_a_learner_that_predicts_the_true_labels_memorises_nothing() -> None:
    stream = tiny_stream(noise=0.5)
    low, high = math.log(math.e + 5) - 1, math.log(math.e + 5)
    assert evaluate.memorisation(Oracle(), stream.tasks[1], stream) == {
        "loss_clean": pytest.approx(low),
        "loss_noisy": pytest.approx(high),
        "memorised": 0,
        "recovered": 100,
    }
    clean = evaluate.memorisation(Oracle(), tiny_stream(noise=0.0).tasks[1], tiny_stream(noise=0.0))
    assert clean["memorised"] is clean["recovered"] is clean["loss_noisy"] is None


def test_memorisation_is_measured_on_evenly_spaced_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, taken = tiny_stream(noise=0.5), list[list[int]]()

    class Recorder(Oracle):
        def predict(self, x: Tensor) -> Tensor:
            taken.append(x.flatten(1).sum(1).tolist())
            return super().predict(x)

    monkeypatch.setattr(evaluate, "MEASURED", 4)
    task = replace(stream.tasks[0], id=stream.tasks[0].id[:10], y=stream.tasks[0].y[:10])
    evaluate.memorisation(Recorder(), task, stream)
    assert taken == [task.take(torch.tensor([0, 2, 5, 7])).x.flatten(1).sum(1).tolist()]


def test_a_class_without_test_samples_has_no_accuracy() -> None:
    stream = tiny_stream()
    first = stream.tests[0]
    only = first.y == 0
    found = evaluate.accuracy(Oracle(), (replace(first, id=first.id[only], y=first.y[only]),))
    assert found.per_class == {0: 100}
    assert math.isnan(evaluate.percent(torch.ones(0, dtype=torch.bool)))


def test_separation_is_measured_on_evenly_spaced_samples_of_a_large_buffer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Tensor] = []

    def losses(learner: Any, buffer: Buffer, slots: Tensor) -> Tensor:  # noqa: ANN401
        found.append(slots)
        return slots.double()

    monkeypatch.setattr(evaluate, "losses", losses)
    monkeypatch.setattr(evaluate, "SEPARATED", 4)
    stream, buffer = tiny_stream(), Buffer(9, (1, 6, 6))
    buffer.put(torch.arange(9), stream.tasks[0].take(torch.arange(9)), 0)
    evaluate.separation(None, buffer, stream, 1)  # type: ignore[arg-type]
    assert found[0].tolist() == [0, 2, 4, 6]
