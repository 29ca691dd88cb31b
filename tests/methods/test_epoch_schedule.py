import pytest

from remnant.methods.epoch_schedule import Alternate, Always, Collect, Phase, StreamOnly, WriteFirst, phases


def test_alternate_starts_with_forgetting_and_ends_with_learning() -> None:
    for epochs in (2, 3, 5, 6, 50):
        for period in (2, 3, 4):
            planned = phases(Alternate(period), epochs)
            assert planned[0] is Phase.FORGET
            assert planned[-1] is Phase.LEARN


def test_every_other_epoch_forgets_by_default() -> None:
    names = "".join(str(phase.name)[0] for phase in phases(Alternate(), 6))
    assert names == "FLFLFL"


def test_an_odd_number_of_epochs_ends_with_two_learning_epochs() -> None:
    names = "".join(str(phase.name)[0] for phase in phases(Alternate(), 5))
    assert names == "FLFLL"


def test_period_four_forgets_in_every_fourth_epoch() -> None:
    forgetting = [e for e, p in enumerate(phases(Alternate(4), 12)) if p is Phase.FORGET]
    assert forgetting == [0, 4, 8]


def test_a_single_epoch_learns_and_never_writes() -> None:
    assert phases(Alternate(), 1) == [Phase.LEARN]


@pytest.mark.parametrize("period", [-1, 0, 1])
def test_a_period_below_two_is_an_error(period: int) -> None:
    with pytest.raises(ValueError, match=f"expected period >= 2, .*, got {period}"):
        Alternate(period)


def test_forgetting_writes_and_rolls_back_but_never_replays() -> None:
    assert Phase.WRITE in Phase.FORGET
    assert Phase.ROLLBACK in Phase.FORGET
    assert Phase.REPLAY not in Phase.FORGET


def test_learning_replays_and_does_not_write() -> None:
    assert Phase.REPLAY in Phase.LEARN
    assert Phase.WRITE not in Phase.LEARN


def test_standard_replay_never_rolls_back() -> None:
    assert all(Phase.ROLLBACK not in phase for phase in phases(Always(), 50))


def test_stream_only_neither_replays_nor_writes() -> None:
    assert set(phases(StreamOnly(), 10)) == {Phase.TRAIN}


def test_write_first_writes_in_the_first_epoch_only() -> None:
    assert phases(WriteFirst(), 3) == [Phase.STANDARD, Phase.LEARN, Phase.LEARN]


def test_collect_writes_once_and_never_trains() -> None:
    assert phases(Collect(), 3) == [Phase.WRITE, Phase.IDLE, Phase.IDLE]
