import pytest
import torch

from remnant.rng import Generators, derive, numpy_generator, torch_generator


def test_seeds_depend_on_the_seed_and_the_name_only() -> None:
    # All results depend on these numbers.
    assert (derive(0, "net"), derive(1, "noise")) == (1538625382518847417, 2441723549896619387)
    assert len({derive(seed, name) for seed in range(10) for name in ("net", "noise", "order")}) == 30


def test_named_generators_are_independent_and_repeatable() -> None:
    assert numpy_generator(3, "order").integers(0, 1000, 3).tolist() == [632, 591, 912]
    first = torch.rand(2, generator=torch_generator(3, "order"))
    assert first.tolist() == pytest.approx([0.18301129341125488, 0.27700334787368774], abs=0)
    assert torch.equal(first, torch.rand(2, generator=torch_generator(3, "order")))
    assert not torch.equal(first, torch.rand(2, generator=torch_generator(3, "augment")))


def test_the_generators_of_training_have_fixed_names() -> None:
    # The generator of the buffer is seeded by the word "memory": another one would change all results.
    expected = {
        "order": 0.18301129341125488,
        "augment": 0.5631852746009827,
        "buffer": 0.13115769624710083,
        "consolidate": 0.698288083076477,
    }
    found = {name: torch.rand(2, generator=g)[0].item() for name, g in vars(Generators.from_seed(3)).items()}
    assert found == expected


def test_generators_continue_from_a_saved_state() -> None:
    generators = Generators.from_seed(3)
    torch.rand(7, generator=generators.order)
    state = generators.state_dict()
    expected = torch.rand(5, generator=generators.order)
    restored = Generators.from_seed(0)
    restored.load_state_dict(state)
    assert torch.equal(torch.rand(5, generator=restored.order), expected)
