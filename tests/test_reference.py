import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import reference
import torch
from buffer_helpers import choice_of, offer_of, samples
from reference import LiteralBuffer, LiteralLearner, Options, Sample
from scipy.stats import chisquare

from remnant.buffer.buffer import Buffer
from remnant.buffer.eviction import asymmetric_victim, loss_aware_victim, pick, uniform_victim
from remnant.buffer.insertion import LowestLoss
from remnant.buffer.reservoir import Reservoir
from remnant.buffer.scoring import Scoring
from remnant.data.dataset import InMemory, Spec
from remnant.methods.epoch_schedule import Alternate, phases
from remnant.methods.objective import AsymmetricCrossEntropy, CrossEntropy
from remnant.methods.protocol import EpochDone, Setup, Training
from remnant.methods.registry import METHODS
from remnant.methods.replay import Replay, ReplayLearner
from remnant.rng import Generators
from remnant.stream import Task

SEVEN = [0.1, 0.5, 1.1, 0.2, 0.6, 1.0, 2.2]
IS_CURRENT = [True] * 3 + [False] * 4
ABS_SEVEN = [0.0252, 0.1261, 0.2773, 0.2381, 0.1905, 0.1429, 0.0]
LASS_SEVEN = [0.0175, 0.0877, 0.1930, 0.0351, 0.1053, 0.1754, 0.3860]


def test_ace_is_over_the_classes_of_the_batch_and_those_never_seen() -> None:
    logits = np.array([[2.0, 1.0, 0.0, -1.0]])
    assert reference.cross_entropy(logits, [2]) == pytest.approx([2.4402], abs=5e-5)
    assert reference.ace_loss(logits, [2], {0, 1, 2}) == pytest.approx([0.3133], abs=5e-5)
    assert reference.ace_loss(logits, [3], {0, 1, 2, 3}) == [0.0]


def test_the_gradient_of_the_reference_is_the_slope_of_its_loss() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    y, seen = [0, 2, 2, 0, 2], {0, 1, 2}
    allowed = reference.allowed_classes(y, seen, 4)
    slope, slope_bias = reference.mean_loss_gradient(x, x @ weight.T, y, allowed)
    for c, d in np.ndindex(4, 3):
        bump = np.zeros((4, 3))
        bump[c, d] = 1e-6
        up = np.mean(reference.ace_loss(x @ (weight + bump).T, y, seen))
        down = np.mean(reference.ace_loss(x @ (weight - bump).T, y, seen))
        assert slope[c, d] == pytest.approx((up - down) / 2e-6, abs=1e-8)
    # Class 1 was seen before and is not in the batch: it has no gradient.
    assert not slope[1].any()
    assert slope_bias[1] == 0


def test_the_number_of_candidates_is_the_one_computed_by_hand() -> None:
    counts = [(32, 0.75, 8), (8, 0.75, 2), (1, 0.75, 0), (2, 0.75, 0), (6, 0.75, 2), (10, 0.75, 2)]
    counts += [(32, 0.0, 32), (32, 0.25, 24), (32, 0.5, 16), (32, 0.6, 13), (32, 0.9, 3)]
    for batch, alpha, kept in counts:
        falling = [float(batch - i) for i in range(batch)]
        assert reference.insertion(falling, alpha) == list(range(batch - kept, batch))


def test_candidates_keep_the_order_of_the_batch() -> None:
    assert reference.insertion([3.0, 1.0, 2.0, 4.0], 0.5) == [1, 2]
    assert reference.insertion([2.0, 1.0, 4.0, 3.0], 0.5) == [0, 1]


def test_abs_probabilities_are_those_computed_by_hand() -> None:
    p = reference.abs_probabilities(SEVEN, IS_CURRENT)
    assert p == pytest.approx(ABS_SEVEN, abs=5e-5)
    assert p[6] == 0
    assert sum(p) == pytest.approx(1)


def test_abs_is_uniform_where_the_losses_of_a_group_are_equal() -> None:
    for losses in ([0.7, 0.7, 0.3, 0.3, 0.3], [0.0] * 5):
        p = reference.abs_probabilities(losses, [True, True, False, False, False])
        assert p == pytest.approx([0.2] * 5)


def test_lass_probabilities_are_those_computed_by_hand() -> None:
    assert reference.lass_probabilities(SEVEN) == pytest.approx(LASS_SEVEN, abs=5e-5)
    assert reference.lass_probabilities([1.0, 2.0, 5.0]) == [0.125, 0.25, 0.625]


def test_two_uniforms_choose_the_group_and_then_the_slot() -> None:
    def choose(kind: str, u_group: float, u_victim: float) -> int:
        return reference.victim(kind, SEVEN, IS_CURRENT, u_group, u_victim)

    # 3/7 = .4286; in the groups (.0588, .2941, .6471) and (.4167, .3333, .25, 0)
    assert [choose("abs", 0.42, u) for u in (0.05, 0.06, 0.35, 0.36)] == [0, 1, 1, 2]
    assert [choose("abs", 0.43, u) for u in (0.41, 0.42, 0.74, 0.76, 0.9999)] == [3, 4, 4, 5, 5]
    assert [choose("lass", 0.0, u) for u in (0.017, 0.018, 0.10, 0.11, 0.62)] == [0, 1, 1, 2, 6]
    assert [choose("reservoir", 0.0, u) for u in (0.0, 0.14, 0.15, 0.99)] == [0, 0, 1, 6]


def test_the_reference_takes_candidates_one_after_another() -> None:
    buffer = LiteralBuffer(2)
    never, always = [0.999, 0.0, 0.0], [0.0, 0.0, 0.0]
    twice = [Sample(7, 0, 1.0), Sample(7, 0, 1.0)]
    reference.offer(buffer, twice, "lass", [never, never])
    assert ([sample.id for sample in buffer.samples], buffer.offered) == ([7], 2)
    # The third candidate gets a free slot although it is not accepted; for the fourth there is none.
    reference.offer(buffer, [Sample(8, 0, 0.0), Sample(9, 0, 5.0)], "lass", [never, never])
    assert ([sample.id for sample in buffer.samples], buffer.offered) == ([7, 8], 4)
    # 9 replaces 7, which has all the loss; then 7 is offered again and replaces 9, which has all the loss.
    back = [Sample(9, 1, 5.0), Sample(7, 1, 2.0)]
    reference.offer(buffer, back, "lass", [always, [0.0, 0.0, 0.5]])
    assert [sample.id for sample in buffer.samples] == [7, 8]
    # The seventh candidate of a buffer of 2 is accepted below 2/7 = .2857.
    reference.offer(buffer, [Sample(10, 1, 1.0)], "reservoir", [[0.286, 0.0, 0.0]])
    assert [sample.id for sample in buffer.samples] == [7, 8]
    buffer.offered = 6
    reference.offer(buffer, [Sample(10, 1, 1.0)], "reservoir", [[0.285, 0.0, 0.0]])
    assert [sample.id for sample in buffer.samples] == [10, 8]


CLASSES = 6
EXACT = Scoring(refresh_every=1)


@dataclass(frozen=True)
class Case:
    method: Replay
    ace: bool = True
    period: int | None = 2
    alpha: float = 0.75
    kind: str = "reservoir"


CASES = {
    "aer-abs": Case(METHODS["aer-abs"], kind="abs"),
    "aer-lass": Case(METHODS["aer-lass"], kind="lass"),
    "aer": Case(METHODS["aer"]),
    "abs": Case(METHODS["abs"], period=None, kind="abs"),
    "er-ace+alpha": Case(METHODS["er-ace+alpha"], period=None),
    "er": Case(METHODS["er"], ace=False, period=None, alpha=0.0),
    "er-ace": Case(METHODS["er-ace"], period=None, alpha=0.0),
    "aer-abs, period 3": Case(replace(METHODS["aer-abs"], schedule=Alternate(3)), period=3, kind="abs"),
    "aer-abs-noace, alpha 0.4": Case(
        replace(METHODS["aer-abs-noace"], insertion=LowestLoss(0.4)),
        ace=False,
        alpha=0.4,
        kind="abs",
    ),
}


class NoTransform:
    def plain(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def augmented(self, x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        return x

    strong = augmented


def random_tasks(rng: np.random.Generator, count: int | None = None) -> list[Task]:
    """Three tasks of two classes in random order, with a noise rate of about a fifth."""
    features = int(rng.integers(5, 9))
    groups = rng.permutation(CLASSES).reshape(3, 2)
    labels = [rng.choice(group, count or int(rng.integers(40, 61))) for group in groups]
    truth = np.concatenate([np.where(rng.random(len(y)) < 0.2, y[::-1], y) for y in labels])
    x = rng.normal(size=(CLASSES, features))[truth] + rng.normal(size=(len(truth), features))
    shuffled = rng.permutation(len(truth))
    ids = np.split(shuffled, np.cumsum([len(y) for y in labels])[:-1])
    source = InMemory(torch.from_numpy(x[np.argsort(shuffled)]))
    return [
        Task(number, tuple(group.tolist()), torch.from_numpy(id_), torch.from_numpy(y), source)
        for number, (group, id_, y) in enumerate(zip(groups, ids, labels, strict=True))
    ]


def cloned(rng: torch.Generator) -> torch.Generator:
    return torch.Generator().set_state(rng.get_state())


@dataclass
class Pair:
    fast: ReplayLearner
    slow: LiteralLearner
    measured: int = 0  # samples that the fast one forwards only to measure their loss

    def learn(self, task: Task) -> Iterator[str]:
        """Learn a task with both; yield at the end of each epoch, before a rollback, and at the end."""
        x = task.source.take(task.id).numpy()
        slow = self.slow.learn(task.number, task.id.numpy(), x, task.y.numpy())
        for event in self.fast.learn(task):
            if isinstance(event, EpochDone):
                next(slow)
                yield f"task {event.task}, epoch {event.epoch}"
        assert next(slow, None) is None
        yield f"end of task {task.number}"

    def count(self, net: torch.nn.Module, inputs: tuple[torch.Tensor]) -> None:
        self.measured += 0 if net.training else len(inputs[0])


def make_pair(case: Case, training: Training, capacity: int, seed: int, features: int) -> Pair:
    net = torch.nn.Linear(features, CLASSES, dtype=torch.float64)
    start = np.random.default_rng(seed + 1000).normal(size=(CLASSES, features + 1)) / 2
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(start[:, :-1]))
        net.bias.copy_(torch.from_numpy(start[:, -1]))
    generators = Generators.from_seed(seed)
    options = Options(
        capacity=capacity,
        batch=training.batch,
        lr=training.lr,
        epochs=training.epochs,
        ace=case.ace,
        period=case.period,
        alpha=case.alpha,
        kind=case.kind,
    )
    weights = start[:, :-1], start[:, -1]
    slow = LiteralLearner(options, weights, cloned(generators.order), cloned(generators.buffer))
    method = replace(case.method, scoring=EXACT)
    classes = tuple(map(str, range(CLASSES)))
    spec = Spec("vectors", (features,), classes, NoTransform(), dtype=torch.float64)
    fast = ReplayLearner(method, Setup(spec, training, capacity), lambda _: net, generators, noise_rate=0.2)
    pair = Pair(fast, slow)
    net.register_forward_pre_hook(pair.count)
    return pair


def random_pair(case: Case, seed: int) -> tuple[Pair, list[Task]]:
    rng = np.random.default_rng(seed)
    tasks = random_tasks(rng)
    training = Training(epochs=int(rng.integers(4, 6)), batch=int(rng.integers(11, 17)), lr=0.2)
    features = tasks[0].source.take(torch.tensor([0])).shape[1]
    return make_pair(case, training, int(rng.integers(12, 25)), seed, features), tasks


def assert_same_buffer(pair: Pair, where: str) -> None:
    fast, slow = pair.fast.buffer, pair.slow.buffer
    assert fast.id[: len(fast)].tolist() == [sample.id for sample in slow.samples], where
    assert fast.y[: len(fast)].tolist() == [sample.y for sample in slow.samples], where
    assert fast.task[: len(fast)].tolist() == [sample.task for sample in slow.samples], where
    assert pair.fast.selection.policy["candidates"] == slow.offered, where


def assert_same_weights(pair: Pair, where: str) -> None:
    net = pair.fast.net
    np.testing.assert_allclose(net.weight.detach(), pair.slow.weight, rtol=0, atol=1e-9, err_msg=where)
    np.testing.assert_allclose(net.bias.detach(), pair.slow.bias, rtol=0, atol=1e-9, err_msg=where)


def assert_learns_as_the_reference(name: str, seed: int) -> None:
    pair, tasks = random_pair(CASES[name], seed)
    for task in tasks:
        for where in pair.learn(task):
            assert_same_buffer(pair, where)
            assert_same_weights(pair, where)
    assert pair.slow.buffer.offered > pair.slow.buffer.capacity == len(pair.slow.buffer.samples)
    assert pair.fast.rng.order.get_state().equal(pair.slow.order.get_state())
    assert pair.fast.rng.buffer.get_state().equal(pair.slow.draws.get_state())


@pytest.mark.parametrize("name", CASES)
def test_the_learner_agrees_with_the_reference_in_every_epoch(name: str) -> None:
    for seed in range(3):
        assert_learns_as_the_reference(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_learner_agrees_with_the_reference_for_many_seeds(name: str) -> None:
    for seed in range(3, 20):
        assert_learns_as_the_reference(name, seed)


def test_forgetting_epochs_are_those_of_the_reference() -> None:
    for case in CASES.values():
        for epochs in range(2, 9):
            options = Options(capacity=1, batch=1, lr=0, epochs=epochs, period=case.period)
            zeros = np.zeros((1, 1)), np.zeros(1)
            slow = LiteralLearner(options, zeros, torch.Generator(), torch.Generator())
            fast = [phase.name == "FORGET" for phase in phases(case.method.schedule, epochs)]
            assert fast == [slow.forgets(epoch) for epoch in range(epochs)]


@cache
def measured_samples(name: str) -> tuple[int, int]:
    tasks = random_tasks(np.random.default_rng(5), count=160)
    features = tasks[0].source.take(torch.tensor([0])).shape[1]
    pair = make_pair(CASES[name], Training(epochs=8, batch=8, lr=0.2), 20, 5, features)
    for task in tasks:
        for where in pair.learn(task):
            assert_same_buffer(pair, where)
    return pair.measured, pair.slow.measured


@pytest.mark.parametrize("name", ["aer-abs", "aer-lass", "aer"])
def test_accepting_first_fills_the_same_slots_with_far_fewer_forwards(name: str) -> None:
    fast, slow = measured_samples(name)
    assert 0 < 4 * fast < slow


def test_only_the_group_of_the_victim_is_measured() -> None:
    assert measured_samples("aer-abs")[0] < measured_samples("aer-lass")[0]


def test_a_reservoir_of_all_samples_measures_nothing() -> None:
    assert measured_samples("er")[0] == 0


VICTIMS = {"reservoir": uniform_victim, "lass": loss_aware_victim, "abs": asymmetric_victim}
PROBABILITIES = {
    "reservoir": reference.uniform_probabilities(7),
    "lass": reference.lass_probabilities(SEVEN),
    "abs": reference.abs_probabilities(SEVEN, IS_CURRENT),
}
SlotsOf = Callable[[str, torch.Tensor], list[list[int]]]


NEW_LOSSES = [0.3, 0.9]  # of two candidates


def fast_slots(kind: str, uniforms: torch.Tensor) -> list[list[int]]:
    """Return the slots that the package gives to candidates of a full buffer with the losses SEVEN."""
    buffer, count = Buffer(7, (1,)), uniforms.shape[1]
    buffer.size = 7
    buffer.id[:], buffer.task[:] = torch.arange(7), 1 - torch.tensor(IS_CURRENT).long()
    table = torch.tensor(SEVEN, dtype=torch.float64)
    offer = offer_of(range(10, 10 + count), NEW_LOSSES[:count])
    policy = Reservoir(VICTIMS[kind])  # it decides, and leaves the buffer as it is
    choices = [
        choice_of(buffer, own, offer, losses=table.__getitem__, state={"candidates": 7}) for own in uniforms
    ]
    return [policy(choice).tolist() for choice in choices]


def slow_slots(kind: str, uniforms: torch.Tensor) -> list[list[int]]:
    return [slow_slots_once(kind, own) for own in uniforms.tolist()]


def slow_slots_once(kind: str, uniforms: list[list[float]]) -> list[int]:
    tasks = [0 if c else 1 for c in IS_CURRENT]
    stored = [Sample(i, t, loss) for i, (t, loss) in enumerate(zip(tasks, SEVEN, strict=True))]
    buffer, slots = LiteralBuffer(7, stored, offered=7), []
    for i, own in enumerate(uniforms):
        # After each offer, so that a first candidate that is evicted by the second is found too.
        reference.offer(buffer, [Sample(10 + i, 0, NEW_LOSSES[i])], kind, [own])
        slots.append([sample.id for sample in buffer.samples].index(10 + i))
    return slots


def accepting_uniforms(draws: int, count: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(count)
    uniforms = torch.rand((draws, count, 3), generator=rng, dtype=torch.float64)
    uniforms[..., 0] = 0  # every candidate is accepted
    return uniforms


def assert_frequencies(slots: list[int], probabilities: list[float]) -> None:
    counts, p = np.bincount(slots, minlength=len(probabilities)), np.array(probabilities)
    assert not counts[p == 0].any()
    assert chisquare(counts[p > 0], len(slots) * p[p > 0]).pvalue > 1e-4


@pytest.mark.parametrize(("slots_of", "draws"), [(fast_slots, 10_000), (slow_slots, 20_000)])
@pytest.mark.parametrize("kind", VICTIMS)
@pytest.mark.slow
def test_victims_are_drawn_with_their_exact_probabilities(kind: str, slots_of: SlotsOf, draws: int) -> None:
    slots = slots_of(kind, accepting_uniforms(draws, 1))
    assert_frequencies([slot for [slot] in slots], PROBABILITIES[kind])


def test_a_uniform_on_the_edge_between_two_slots_chooses_the_second() -> None:
    # Sums of eighths are exact. Slots of weight 0 are never chosen, not even by a uniform of 0.
    weights, edges = [0.0, 1.0, 2.0, 0.0, 5.0], [0.0, 0.125, 0.375, 0.5]
    assert [pick(torch.tensor(weights), u) for u in edges] == [1, 2, 4, 4]
    p = reference.normalise(weights)
    assert [reference.inverse_distribution(p, u) for u in edges] == [1, 2, 4, 4]


def pair_probabilities() -> list[float]:
    """Return the probabilities of (first victim, second victim) in ABS: the second draw sees the first."""
    joint = []
    for first, p in enumerate(reference.abs_probabilities(SEVEN, IS_CURRENT)):
        losses, is_current = list(SEVEN), list(IS_CURRENT)
        losses[first], is_current[first] = NEW_LOSSES[0], True
        joint += [p * q for q in reference.abs_probabilities(losses, is_current)]
    return joint


@pytest.mark.parametrize("slots_of", [fast_slots, slow_slots])
@pytest.mark.slow
def test_the_second_candidate_sees_the_buffer_that_the_first_has_changed(slots_of: SlotsOf) -> None:
    slots = slots_of("abs", accepting_uniforms(6_000, 2))
    assert_frequencies([7 * first + second for first, second in slots], pair_probabilities())


CAPACITY, ITEMS = 5, 50


def kept_by_the_reference(uniforms: list[list[float]]) -> list[int]:
    buffer = LiteralBuffer(CAPACITY)
    reference.offer(buffer, [Sample(i, 0, 0.0) for i in range(ITEMS)], "reservoir", uniforms)
    return [sample.id for sample in buffer.samples]


def kept_by_the_package(uniforms: torch.Tensor) -> list[int]:
    buffer = Buffer(CAPACITY, (1,))
    slots = Reservoir()(choice_of(buffer, uniforms, offer_of(range(ITEMS))))
    buffer.put(slots, samples(range(ITEMS)), 0)
    return buffer.id.tolist()


def trials(count: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(3)
    return torch.rand((count, ITEMS, 3), generator=rng, dtype=torch.float64)


def assert_kept_equally_often(kept: list[list[int]]) -> None:
    frequency = np.bincount(np.concatenate(kept), minlength=ITEMS) / len(kept)
    bound = 4.5 * math.sqrt(0.1 * 0.9 / len(kept))  # 0.0095 for 20,000 trials
    assert np.abs(frequency - 0.1).max() < bound


@pytest.mark.slow
def test_the_reference_keeps_every_candidate_with_the_same_probability() -> None:
    assert_kept_equally_often([kept_by_the_reference(uniforms.tolist()) for uniforms in trials(20_000)])


@pytest.mark.slow
def test_the_package_keeps_every_candidate_with_the_same_probability() -> None:
    uniforms = trials(4_000)
    kept = [kept_by_the_package(own) for own in uniforms]
    assert kept[:200] == [kept_by_the_reference(own.tolist()) for own in uniforms[:200]]
    assert_kept_equally_often(kept)


def test_losses_and_candidates_of_a_batch_are_those_of_the_reference() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(1, 40))
        logits, y = 5 * rng.normal(size=(size, CLASSES)), rng.integers(0, 4, size)
        seen = set(y.tolist()) | set(rng.integers(0, CLASSES, 2).tolist())
        is_seen = torch.tensor([c in seen for c in range(CLASSES)])
        fast = torch.from_numpy(logits), torch.from_numpy(y), is_seen
        plain, masked = CrossEntropy().sample_loss(*fast), AsymmetricCrossEntropy().sample_loss(*fast)
        np.testing.assert_allclose(plain, reference.cross_entropy(logits, y), atol=1e-12)
        np.testing.assert_allclose(masked, reference.ace_loss(logits, y.tolist(), seen), atol=1e-12)
        ties = masked.round()
        for alpha in (0.0, 0.25, 0.5, 0.6, 0.75, 0.9):
            assert LowestLoss(alpha).choose(ties).tolist() == reference.insertion(ties.tolist(), alpha)
