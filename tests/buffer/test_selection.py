import copy

import pytest
import torch
import torch.nn.functional as F
from conftest import same
from torch import Tensor, nn

from remnant.buffer.base import Choice, Replacement
from remnant.buffer.buffer import Buffer
from remnant.buffer.eviction import asymmetric_victim, loss_aware_victim
from remnant.buffer.insertion import Everything, Insertion, LowestLoss
from remnant.buffer.purity_diversity import PurityDiversity
from remnant.buffer.reservoir import Reservoir
from remnant.buffer.scoring import NEVER, Scoring
from remnant.buffer.selection import NO_DECISION, Decision, Scorer, Selection
from remnant.errors import Diverged
from remnant.stream import Batch

CLASSES = 3
HALF = LowestLoss(0.5)
ABS = Reservoir(asymmetric_victim)


class Net(nn.Module):
    """Softmax regression on four features, with BatchNorm, that records what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(4), nn.Linear(4, CLASSES)
        self.inputs: list[Tensor] = []

    def features(self, x: Tensor) -> Tensor:
        self.inputs.append(x)
        normed: Tensor = self.norm(x)
        return normed

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits

    @property
    def forwarded(self) -> int:
        return sum(map(len, self.inputs))


class ToFloat:
    def plain(self, x: Tensor) -> Tensor:
        return x.float() / 255

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        raise AssertionError("scores are measured on un-augmented samples")

    strong = augmented


def plain_rank(logits: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(logits, y, reduction="none")


def new_scorer(seed: int = 0) -> Scorer:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Scorer(Net(), ToFloat(), plain_rank)


def net_of(scorer: Scorer) -> Net:
    assert isinstance(scorer.net, Net)
    return scorer.net


def random_batch(size: int, first: int = 0) -> Batch:
    rng = torch.Generator().manual_seed(first)
    x = torch.randint(256, (size, 4), generator=rng, dtype=torch.uint8)
    return Batch(x, torch.randint(CLASSES, (size,), generator=rng), first + torch.arange(size))


def new_selection(
    insertion: Insertion = HALF,
    replacement: Replacement = ABS,
    *,
    capacity: int = 4,
    refresh_every: int = 1,
    logits: int = 0,
) -> Selection:
    buffer = Buffer(capacity, (4,), logits=logits)
    return Selection(insertion, replacement, Scoring(refresh_every), buffer)


def fill(selection: Selection, task: int = 0) -> Batch:
    stored = random_batch(selection.buffer.capacity, first=1000)
    selection.buffer.put(torch.arange(len(stored)), stored, task)
    return stored


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def write(
    selection: Selection, batch: Batch, scorer: Scorer, rng: torch.Generator, task: int = 0
) -> Decision:
    decision = selection.decide(batch, task, scorer, rng)
    selection.replace(decision, batch[decision.positions], task, None)
    return decision


def loss_of(scorer: Scorer, x: Tensor, y: Tensor) -> Tensor:
    net = copy.deepcopy(scorer.net).eval()
    with torch.no_grad():
        return F.cross_entropy(net(scorer.transform.plain(x)), y, reduction="none").double()


def test_a_batch_without_an_accepted_candidate_costs_no_forward() -> None:
    selection, scorer = new_selection(), new_scorer()
    fill(selection)
    selection.policy["candidates"] = 10**9
    assert selection.decide(random_batch(8), 0, scorer, generator()) is NO_DECISION
    assert net_of(scorer).inputs == []
    assert selection.policy["candidates"] == 10**9 + 4


def test_a_batch_without_an_accepted_candidate_leaves_the_buffer_as_it_is() -> None:
    selection, scorer = new_selection(logits=CLASSES), new_scorer()
    stored = fill(selection)
    selection.policy["candidates"] = 10**9
    batch = random_batch(8)
    decision = selection.decide(batch, 0, scorer, generator())
    selection.replace(decision, batch[decision.positions], 0, torch.zeros(8, CLASSES))
    assert selection.buffer.id.tolist() == stored.id.tolist()


def test_a_batch_that_is_too_small_for_a_candidate_is_not_an_error() -> None:
    selection = new_selection(LowestLoss(0.75))
    assert selection.decide(random_batch(1), 0, new_scorer(), generator()) is NO_DECISION


def test_every_candidate_takes_three_random_numbers_whether_accepted_or_not() -> None:
    for offered in (0, 10**9):
        selection, rng, expected = new_selection(), generator(), generator()
        fill(selection)
        selection.policy["candidates"] = offered
        selection.decide(random_batch(8), 0, new_scorer(), rng)
        torch.rand(4, 3, generator=expected, dtype=torch.float64)
        assert rng.get_state().equal(expected.get_state())


def test_reservoir_sampling_of_all_samples_never_uses_the_network() -> None:
    selection, scorer, rng = new_selection(Everything(), Reservoir()), new_scorer(), generator()
    for step in range(5):
        write(selection, random_batch(8, first=8 * step), scorer, rng)
    assert net_of(scorer).inputs == []
    assert len(selection.buffer) == 4
    assert selection.scores.loss.isnan().all()
    assert (selection.scores.measured == NEVER).all()


class FirstTwo:
    """The first two samples of a batch are candidates, whatever their losses are."""

    needs_loss = False

    def count(self, batch: int) -> int:
        return 2

    def choose(self, loss: Tensor) -> Tensor:
        return torch.arange(2)


def test_an_insertion_without_losses_may_choose_some_samples() -> None:
    selection, scorer = new_selection(FirstTwo(), Reservoir(), capacity=10), new_scorer()
    decision = selection.decide(random_batch(8), 0, scorer, generator())
    assert (decision.positions.tolist(), decision.slots.tolist()) == ([0, 1], [0, 1])
    assert decision.loss.isnan().all()
    assert net_of(scorer).inputs == []


def test_candidates_have_the_lowest_losses_of_the_batch() -> None:
    selection, scorer, batch = new_selection(capacity=10), new_scorer(), random_batch(8)
    loss = loss_of(scorer, batch.x, batch.y)
    decision = selection.decide(batch, 0, scorer, generator())
    assert decision.positions.tolist() == loss.argsort()[:4].sort().values.tolist()
    assert decision.slots.tolist() == [0, 1, 2, 3]


def test_candidates_are_ranked_by_the_training_loss_and_stored_with_the_unmasked_loss() -> None:
    def last_first(logits: Tensor, y: Tensor) -> Tensor:
        return -torch.arange(len(y), dtype=torch.float32)

    scorer = Scorer(new_scorer().net, ToFloat(), last_first)
    selection, batch = new_selection(capacity=10), random_batch(8)
    decision = write(selection, batch, scorer, generator())
    assert decision.positions.tolist() == [4, 5, 6, 7]
    expected = loss_of(scorer, batch.x[4:], batch.y[4:])
    assert torch.allclose(decision.loss, expected, atol=1e-6)
    assert torch.allclose(selection.scores.loss[:4], expected, atol=1e-6)
    assert selection.scores.measured[:4].tolist() == [selection.scores.clock] * 4


def test_a_decision_changes_nothing_until_it_is_applied() -> None:
    selection, scorer, batch = new_selection(), new_scorer(), random_batch(8)
    stored = fill(selection)
    decision = selection.decide(batch, 1, scorer, generator())
    assert (decision.slots >= 0).any()
    assert selection.buffer.id.tolist() == stored.id.tolist()
    before = copy.deepcopy(decision)
    with torch.no_grad():  # the step comes between decision and replacement
        scorer.net.head.weight.mul_(-3)
    forwarded = net_of(scorer).forwarded
    selection.replace(decision, batch[decision.positions], 1, None)
    assert net_of(scorer).forwarded == forwarded
    for slot in set(decision.slots.tolist()) - {-1}:
        last = max(i for i, other in enumerate(before.slots.tolist()) if other == slot)
        assert selection.buffer.id[slot] == batch.id[before.positions[last]]
        assert selection.buffer.task[slot] == 1
        assert selection.scores.loss[slot] == before.loss[last]


def test_a_slot_that_is_replaced_twice_keeps_the_loss_of_the_last_candidate() -> None:
    class Slots:
        needs_loss = True

        def __call__(self, choice: Choice) -> Tensor:
            choice.offer()
            return torch.tensor([0, -1, 0, 1])

    selection, batch = new_selection(replacement=Slots()), random_batch(8)
    decision = write(selection, batch, new_scorer(), generator())
    assert selection.buffer.samples().id.tolist() == batch.id[decision.positions[[2, 3]]].tolist()
    assert selection.scores.loss[:2].tolist() == decision.loss[[2, 3]].tolist()


def test_losses_of_stored_samples_are_measured_by_the_current_network() -> None:
    selection, scorer = new_selection(replacement=Reservoir(loss_aware_victim)), new_scorer()
    stored = fill(selection)
    decision = selection.decide(random_batch(8), 0, scorer, generator())
    assert (decision.slots >= 0).any()
    expected = loss_of(scorer, stored.x, stored.y)
    assert torch.allclose(selection.scores.loss, expected, atol=1e-6)


def test_only_the_chosen_group_of_stored_samples_is_forwarded() -> None:
    selection, scorer = new_selection(LowestLoss(0.75)), new_scorer()
    fill(selection)
    selection.buffer.task[:] = torch.tensor([1, 0, 0, 0])
    decision = selection.decide(random_batch(4), 1, scorer, generator(1))
    is_measured = selection.scores.measured != NEVER
    assert (decision.slots >= 0).all()
    assert is_measured.tolist() in ([True, False, False, False], [False, True, True, True])
    assert net_of(scorer).forwarded == 4 + int(is_measured.sum())


def test_reused_losses_cost_fewer_forwards() -> None:
    def forwarded(refresh_every: int) -> int:
        selection = new_selection(
            replacement=Reservoir(loss_aware_victim), capacity=8, refresh_every=refresh_every
        )
        scorer, rng = new_scorer(), generator()
        for step in range(20):
            write(selection, random_batch(8, first=8 * step), scorer, rng)
        return net_of(scorer).forwarded

    assert forwarded(8) < forwarded(1)


def test_scoring_uses_eval_mode_and_does_not_change_the_network() -> None:
    selection, scorer, rng = new_selection(), new_scorer(), generator()
    scorer.net.train()
    before = copy.deepcopy(scorer.net.state_dict())
    for step in range(4):
        write(selection, random_batch(8, first=8 * step), scorer, rng)
    assert net_of(scorer).inputs
    assert same(dict(before), dict(scorer.net.state_dict()))


def test_logits_are_stored_with_their_samples() -> None:
    selection, batch = new_selection(capacity=10, logits=CLASSES), random_batch(8)
    decision = selection.decide(batch, 0, new_scorer(), generator())
    logits = torch.arange(8.0 * CLASSES).view(8, CLASSES)
    selection.replace(decision, batch[decision.positions], 0, logits)
    assert selection.buffer.logits[:4].equal(logits[decision.positions])
    write(selection, random_batch(8, first=8), new_scorer(), generator())
    assert selection.buffer.logits[4:8].isnan().all()


def test_features_are_those_of_the_stored_samples_followed_by_the_candidates() -> None:
    selection, scorer, batch = new_selection(Everything(), PurityDiversity()), new_scorer(), random_batch(6)
    stored = fill(selection)
    decision = write(selection, batch, scorer, generator())
    assert (decision.slots >= 0).any()
    assert torch.cat(net_of(scorer).inputs).equal(scorer.transform.plain(torch.cat([stored.x, batch.x])))
    assert len(selection.buffer) == 4


def test_a_diverged_network_raises_instead_of_filling_the_buffer() -> None:
    selection, scorer = new_selection(), new_scorer()
    with torch.no_grad():
        scorer.net.head.bias.fill_(torch.nan)
    with pytest.raises(Diverged):
        selection.decide(random_batch(8), 0, scorer, generator())
    assert len(selection.buffer) == 0


@pytest.mark.parametrize("replacement", [Reservoir(), ABS, PurityDiversity()])
def test_a_restored_selection_continues_with_the_same_decisions(replacement: Replacement) -> None:
    scorer, rng = new_scorer(), generator()
    whole = new_selection(replacement=replacement, refresh_every=3)
    for step in range(12):
        write(whole, random_batch(8, first=8 * step), scorer, rng)
    part, rng = new_selection(replacement=replacement, refresh_every=3), generator()
    for step in range(12):
        write(part, random_batch(8, first=8 * step), scorer, rng)
        saved = copy.deepcopy((part.state_dict(), part.buffer.state_dict()))
        part = new_selection(replacement=replacement, refresh_every=3)
        part.load_state_dict(saved[0])
        part.buffer.load_state_dict(saved[1])
    assert part.policy == whole.policy
    assert part.scores.clock == whole.scores.clock == 12
    assert part.buffer.id.tolist() == whole.buffer.id.tolist()
    assert part.scores.measured.equal(whole.scores.measured)
    assert part.scores.loss.nan_to_num().equal(whole.scores.loss.nan_to_num())


def test_the_counters_of_a_saved_state_do_not_change_with_the_run() -> None:
    selection, scorer = new_selection(), new_scorer()
    write(selection, random_batch(8), scorer, generator())
    saved = selection.state_dict()
    assert saved["policy"]["candidates"] == 4
    write(selection, random_batch(8, first=8), scorer, generator())
    assert saved["policy"]["candidates"] == 4
    selection.load_state_dict(saved)
    write(selection, random_batch(8, first=16), scorer, generator())
    assert (saved["policy"]["candidates"], selection.policy["candidates"]) == (4, 8)
