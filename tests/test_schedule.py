import pytest

from remnant.schedule import Alternate, Always, Phase, StreamOnly, phases


@pytest.mark.parametrize("epochs", [2, 3, 5, 6, 50])
@pytest.mark.parametrize("period", [2, 3, 4])
def test_alternate_starts_forgetting_and_ends_learning(epochs: int, period: int) -> None:
    planned = phases(Alternate(period), epochs)
    assert planned[0] is Phase.FORGET
    assert planned[-1] is Phase.LEARN


def test_the_paper_forgets_every_other_epoch() -> None:
    names = "".join(str(phase.name)[0] for phase in phases(Alternate(), 6))
    assert names == "FLFLFL"


def test_an_odd_number_of_epochs_learns_twice_at_the_end() -> None:
    names = "".join(str(phase.name)[0] for phase in phases(Alternate(), 5))
    assert names == "FLFLL"


def test_period_four_forgets_in_every_fourth_epoch() -> None:
    forgetting = [e for e, p in enumerate(phases(Alternate(4), 12)) if p is Phase.FORGET]
    assert forgetting == [0, 4, 8]


def test_one_epoch_of_alternation_never_writes() -> None:
    assert phases(Alternate(), 1) == [Phase.LEARN]


@pytest.mark.parametrize("period", [-1, 0, 1])
def test_a_period_that_never_learns_is_refused(period: int) -> None:
    with pytest.raises(ValueError, match=f"at least 2, got {period}"):
        Alternate(period)


def test_forgetting_writes_and_rolls_back_but_never_replays() -> None:
    assert Phase.WRITE in Phase.FORGET
    assert Phase.ROLLBACK in Phase.FORGET
    assert Phase.REPLAY not in Phase.FORGET


def test_learning_replays_and_leaves_the_memory_alone() -> None:
    assert Phase.REPLAY in Phase.LEARN
    assert Phase.WRITE not in Phase.LEARN


def test_a_method_without_alternation_never_rolls_back() -> None:
    assert all(Phase.ROLLBACK not in phase for phase in phases(Always(), 50))


def test_stream_only_neither_replays_nor_writes() -> None:
    assert set(phases(StreamOnly(), 10)) == {Phase.TRAIN}
