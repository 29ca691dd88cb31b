from pathlib import Path

import numpy as np

from remnant.data.own.listing import cache_name, class_notes, held_out, natural_order, shortened


def test_classes_are_in_natural_order() -> None:
    names = ["b10", "b9", "B1", "a", "10", "9", "²", "b9"]
    assert natural_order(names) == ["9", "10", "a", "B1", "b9", "b10", "²"]


def test_the_same_share_of_each_class_is_held_out_every_time() -> None:
    labels = ["a"] * 10 + ["b"] * 20 + ["c"] * 2 + ["d"]
    is_test = held_out(labels, 0.2)
    counts = {label: int(is_test[[name == label for name in labels]].sum()) for label in "abcd"}
    assert counts == {"a": 2, "b": 4, "c": 1, "d": 0}
    assert np.array_equal(is_test, held_out(labels, 0.2))


def test_at_least_one_sample_of_each_class_is_trained_on() -> None:
    assert held_out(["a"] * 3 + ["b"], 0.99).tolist().count(False) == 2


def test_classes_that_may_be_mistakes_are_noted() -> None:
    assert class_notes(["a", "b", "a", "b"]) == []
    assert class_notes(["a", "A", "a", "A"]) == ["classes whose names differ in case only: 'A' and 'a'"]
    assert class_notes([str(i) for i in range(9)]) == [
        "classes with a single image: 0, 1, 2, 3, 4 and 4 more"
    ]


def test_long_lists_are_shortened() -> None:
    assert shortened(["a", "b"]) == "a, b"


def test_folders_of_the_same_name_have_different_caches() -> None:
    first, second = (cache_name("folder", Path(place, "päts (1).x")) for place in ("/a", "/b"))
    assert first != second
    assert first.startswith("folder-p-ts-1-")
