import pytest
import torch

from remnant.engine.threads import compute_threads


def test_the_number_of_threads_is_set_and_restored() -> None:
    before = torch.get_num_threads()
    with compute_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_the_number_of_threads_is_restored_after_an_error() -> None:
    before = torch.get_num_threads()
    with pytest.raises(KeyError), compute_threads(before + 1):
        raise KeyError
    assert torch.get_num_threads() == before
