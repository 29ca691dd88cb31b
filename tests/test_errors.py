from remnant.errors import Diverged, Interrupted, RemnantError, nearest, unmet


def test_unmet_expectations_are_returned_in_order() -> None:
    assert unmet({"a": True, "b": 0, "c": [], "d": "x"}) == ["b", "c"]


def test_the_nearest_name_is_suggested_if_it_is_similar() -> None:
    assert nearest("aer_abs", ["er", "aer-abs", "aer"]) == "; did you mean 'aer-abs'?"
    assert nearest("transformer", ["er", "aer"]) == "."
    assert nearest("", []) == "."


def test_every_error_for_users_is_a_remnant_error() -> None:
    assert issubclass(Interrupted, RemnantError)
    assert issubclass(Diverged, RemnantError)
