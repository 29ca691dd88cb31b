import pytest

from remnant.errors import Diverged, Interrupted, RemnantError, memory_errors, nearest, unmet


def test_unmet_expectations_are_returned_in_order() -> None:
    assert unmet({"a": True, "b": 0, "c": [], "d": "x"}) == ["b", "c"]


def test_the_nearest_name_is_suggested_if_it_is_similar() -> None:
    assert nearest("aer_abs", ["er", "aer-abs", "aer"]) == "; did you mean 'aer-abs'?"
    assert nearest("transformer", ["er", "aer"]) == "."
    assert nearest("", []) == "."


def test_every_error_for_users_is_a_remnant_error() -> None:
    assert issubclass(Diverged, RemnantError)


def test_an_interruption_is_not_caught_by_a_loop_that_ignores_errors() -> None:
    assert issubclass(Interrupted, KeyboardInterrupt)
    assert not issubclass(Interrupted, Exception)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
     OSError(12, "Cannot allocate memory"), RuntimeError("std::bad_alloc"),
     ImportError("libtorch_cpu.so: failed to map segment from shared object"),
     RuntimeError("could not create a primitive")],
)  # fmt: skip
def test_too_little_memory_is_an_error_for_users(error: Exception) -> None:
    with pytest.raises(RemnantError, match="expected enough free memory"), memory_errors():
        raise error


def test_other_errors_are_not_about_memory() -> None:
    with pytest.raises(RuntimeError, match="other"), memory_errors():
        raise RuntimeError("other")
