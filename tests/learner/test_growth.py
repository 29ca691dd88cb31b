"""States of learners with more classes."""

import torch

from remnant.learner.growth import grown

NAN = float("nan")


def test_dimensions_of_classes_grow_and_all_others_stay() -> None:
    old = {
        "head": torch.ones(2, 4),
        "body": torch.ones(4, 4),
        "logits": torch.ones(3, 2),
        "order": torch.ones(7),
    }
    new = {
        "head": torch.zeros(3, 4),
        "body": torch.zeros(4, 4),
        "logits": torch.full((3, 3), NAN),
        "order": torch.ones(0),
    }
    found = grown(new, old, before=2, after=3)
    assert found["head"].tolist() == [[1] * 4, [1] * 4, [0] * 4]
    assert torch.equal(found["body"], old["body"])
    assert found["logits"].tolist() == [[1, 1, 0]] * 3
    assert len(found["order"]) == 7


def test_tensors_with_another_number_of_samples_are_padded_with_zeros() -> None:
    found = grown({"a": torch.empty(0, 3)}, {"a": torch.ones(5, 2)}, before=2, after=3)
    assert found["a"].tolist() == [[1, 1, 0]] * 5


def test_optimizers_are_new_and_plain_values_stay() -> None:
    old = {"weights": {"momentum": {"0": torch.ones(2)}}, "epoch": 3, "clean": None}
    new = {"weights": {"momentum": {}}, "epoch": 0, "clean": None}
    assert grown(new, old, 2, 3) == {"weights": {"momentum": {}}, "epoch": 3, "clean": None}
