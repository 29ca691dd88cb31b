from remnant.suspects.agreement import agreement
from remnant.suspects.table import Suspect


def table(task: int, label: str, right: int, count: int) -> list[Suspect]:
    """Rows of one label, of which the network predicts so many."""
    return [
        Suspect(i, "", task, False, 0.9, label, label if i < right else "another", False)
        for i in range(count)
    ]


def test_labels_of_the_last_task_that_are_predicted_are_counted() -> None:
    rows = [*table(1, "cat", 0, 9), *table(2, "cat", 40, 50), *table(2, "dog", 25, 50)]
    assert agreement(rows) == ("the network predicts the given label of 65 of 100 new samples", "")


def test_classes_of_which_fewer_than_half_are_predicted_are_named() -> None:
    rows = [*table(2, "car", 24, 50), *table(2, "truck", 5, 50), *table(2, "bus", 50, 50)]
    _, warning = agreement(rows)
    assert warning == (
        "warning: the network predicts the given label of only 5 of 50 samples of truck, 24 of 50 samples of "
        "car. They may need more epochs, or other labels."
    )


def test_of_many_classes_the_worst_are_named() -> None:
    rows = [row for i in range(8) for row in table(1, f"c{i}", i, 20)]
    _, warning = agreement(rows)
    assert "0 of 20 samples of c0, 1 of 20 samples of c1" in warning
    assert "of c4 and of 3 more classes. They" in warning


def test_a_method_without_suspects_says_nothing() -> None:
    assert agreement([]) == ("", "")
