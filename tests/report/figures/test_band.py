import math

from remnant.report.figures.band import band


def test_mean_and_standard_error_are_those_over_seeds() -> None:
    found = band([{1: 10.0, 2: 4.0}, {1: 14.0, 2: 6.0}, {1: 12.0, 2: 8.0}])
    assert found.mean == (12.0, 6.0)
    assert [round(error, 3) for error in found.error] == [1.155, 1.155]  # 2 / sqrt(3)
    assert [round(value, 3) for value in found.lower] == [10.845, 4.845]
    assert [round(value, 3) for value in found.upper] == [13.155, 7.155]


def test_seeds_without_a_value_are_not_counted() -> None:
    found = band([{1: 10.0, 2: None}, {2: 3.0}])
    assert found.x == (1, 2)
    assert found.mean == (10.0, 3.0)
    assert all(math.isnan(error) for error in found.error)
    assert found.lower == found.upper == [10.0, 3.0]


def test_values_that_no_seed_has_are_not_measured() -> None:
    assert not band([{1: None}, {1: None}]).is_measured
    assert not band([]).is_measured
    assert band([{1: None, 2: 0.0}]).is_measured
