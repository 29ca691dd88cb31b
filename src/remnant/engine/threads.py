"""The number of compute threads, which affects bitwise reproducibility."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def compute_threads(count: int) -> Iterator[None]:
    """Compute with this many threads, and restore the previous number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
