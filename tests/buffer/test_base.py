import pytest
import torch
from buffer_helpers import choice_of, offer_of

from remnant.buffer import REPLACEMENTS, Buffer, Candidates, GreedyBalanced, Replacement
from remnant.buffer.base import needs_loss


def test_candidates_without_features_raise_when_features_are_used() -> None:
    none = torch.empty(0, dtype=torch.long)
    with pytest.raises(LookupError, match="features are not available"):
        Candidates(none, none, none, none.double()).embed()


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_no_policy_changes_the_buffer_or_asks_for_losses_before_it_is_full(name: str) -> None:
    policy: Replacement = REPLACEMENTS[name]
    buffer = Buffer(4, (1,))
    slots = policy(choice_of(buffer, torch.rand(2, 3), offer_of([5, 6], y=[0, 1])))
    assert slots.tolist() == [0, 1]
    assert len(buffer) == 0


def test_a_policy_that_does_not_say_otherwise_needs_losses() -> None:
    assert needs_loss(lambda choice: torch.full((len(choice.uniforms),), -1))
    assert not needs_loss(GreedyBalanced())
