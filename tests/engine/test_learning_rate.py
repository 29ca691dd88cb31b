import pytest
import reference_consolidation as reference
from hypothesis import given, strategies as st

from remnant.engine.learning_rate import cosine, ends_cycle, step_decay, warm_restarts


def test_step_decay_divides_by_ten_after_the_given_fractions_of_the_epochs() -> None:
    rates = [step_decay(epoch, 50, 0.03, (0.7, 0.9)) for epoch in (0, 34, 35, 44, 45, 49)]
    assert rates == pytest.approx([0.03, 0.03, 0.003, 0.003, 0.0003, 0.0003])
    assert step_decay(49, 50, 0.03, ()) == 0.03


@given(st.integers(0, 600), st.floats(1e-4, 1.0))
def test_warm_restarts_match_the_reference(epoch: int, lr: float) -> None:
    assert warm_restarts(epoch, lr) == pytest.approx(reference.warm_restarts(epoch, lr), rel=1e-12)


def test_cycles_double_in_length_and_end_with_a_low_learning_rate() -> None:
    restarts = [e for e in range(1, 256) if warm_restarts(e, 0.05) > warm_restarts(e - 1, 0.05)]
    assert restarts == [3, 7, 15, 31, 63, 127, 255]  # epoch 1 restarts too, after a cycle of one epoch
    assert warm_restarts(0, 0.05) == warm_restarts(1, 0.05) == pytest.approx(0.05)
    assert warm_restarts(254, 0.05) == pytest.approx(0.0005, rel=0.02)


def test_a_cycle_ends_before_each_restart_and_with_the_last_epoch() -> None:
    ends = [epoch for epoch in range(100) if ends_cycle(epoch, 100)]
    assert ends == [0, 2, 6, 14, 30, 62, 99]


def test_cosine_never_rises_and_ends_near_zero() -> None:
    rates = [cosine(step, 160, 3e-4) for step in range(160)]
    assert rates[:11] == [3e-4] * 11
    assert sorted(rates, reverse=True) == rates
    assert 0 < rates[-1] < 3e-7
    assert [cosine(step, 4, 1.0) for step in range(4)] == [1, 1, 1, 1]
