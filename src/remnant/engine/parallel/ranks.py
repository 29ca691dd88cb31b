"""The processes of one run, called ranks, and how they agree.

Every rank has the same stream, generators, buffers and weights, and makes the same decisions from the same
numbers. Only forward and backward passes are split between them (`engine/parallel/split.py`). Files and
the console belong to rank 0. A run in a single process uses `SINGLE`, which does nothing.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Protocol

from remnant.errors import RemnantError

if TYPE_CHECKING:  # torch is imported inside functions, since the command line asks for the rank first
    import torch
    from torch import Tensor, nn
    from torch._C._distributed_c10d import Store
    from torch.distributed import ProcessGroup

START = timedelta(minutes=5)  # until all processes have connected
IN_STEP = timedelta(seconds=20)  # that ranks wait for each other during training
FILES = timedelta(days=1)  # that ranks wait while rank 0 reads or writes files
ROLL_CALL = 3.0  # seconds in which ranks report that they are alive after an error


class Ranks(Protocol):
    """What a process knows of the other processes of its run."""

    @property
    def number(self) -> int:
        """Return the number of this rank, from 0."""
        ...

    @property
    def count(self) -> int:
        """Return the number of ranks."""
        ...

    def prepare(self, net: "nn.Module") -> "nn.Module":
        """Return the network with forward passes that are split between the ranks."""
        ...

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Return for each flag whether it is True on any rank."""
        ...

    def gather(self, content: bytes) -> list[bytes]:
        """Return the content of every rank; a rank may be late, because it reads or writes files."""
        ...


@dataclass(frozen=True)
class Single:
    """A run in a single process."""

    number: int = 0
    count: int = 1

    def prepare(self, net: "nn.Module") -> "nn.Module":
        """Return the network."""
        return net

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Return the flags."""
        return flags

    def gather(self, content: bytes) -> list[bytes]:
        """Return the content."""
        return [content]


SINGLE = Single()


@dataclass(frozen=True)
class Share:
    """The samples of a batch that one rank computes."""

    start: int
    end: int
    batch: int  # samples of the whole batch


class RankGroup:
    """Several processes that are connected by torch.distributed."""

    def __init__(self, number: int, count: int, group: "ProcessGroup", store: "Store") -> None:
        """Use `group` during training, and the default group to wait for files."""
        self.number, self.count = number, count
        self.share: Share | None = None  # of the forward pass that is being computed
        self._group, self._store = group, store

    def share_of(self, batch: int) -> Share:
        """Return the share of this rank; shares differ by at most one sample."""
        start, end = (batch * rank // self.count for rank in (self.number, self.number + 1))
        return Share(start, end, batch)

    @contextlib.contextmanager
    def computing(self, share: Share) -> Iterator[None]:
        """Mark a forward pass as that of a share."""
        self.share = share
        try:
            yield
        finally:
            self.share = None

    def prepare(self, net: "nn.Module") -> "nn.Module":
        """Return the network with forward passes that are split between the ranks."""
        from remnant.engine.parallel.split import split

        return split(net, self)

    def sum(self, values: "Tensor") -> "Tensor":
        """Replace values by their sum over all ranks; every rank gets the same bits."""
        return self._sum(values, self._group)

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Return for each flag whether it is True on any rank."""
        import torch

        return tuple(votes > 0 for votes in self.sum(torch.tensor(flags, dtype=torch.int32)).tolist())

    def gather(self, content: bytes) -> list[bytes]:
        """Return the content of every rank."""
        import torch

        sizes = torch.zeros(self.count, dtype=torch.long)
        sizes[self.number] = len(content)
        self._sum(sizes, None)
        parts = torch.zeros(int(sizes.sum()), dtype=torch.uint8).split(sizes.tolist())
        if content:
            parts[self.number].copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        together = self._sum(torch.cat(parts), None)
        return [part.numpy().tobytes() for part in together.split(sizes.tolist())]

    def _sum(self, values: "Tensor", group: "ProcessGroup | None") -> "Tensor":
        import torch.distributed as dist

        try:
            dist.all_reduce(values, group=group)
        except RuntimeError as error:
            raise RemnantError(self._lost(str(error))) from error
        return values

    def _lost(self, reason: str) -> str:
        """Return which ranks do not answer any more, after a connection failed or was too slow."""
        missing, last = set(range(self.count)), time.monotonic() + ROLL_CALL
        with contextlib.suppress(RuntimeError):  # torchrun, which keeps the list, may be gone as well
            self._store.set(f"alive {self.number}", "yes")
            while missing and time.monotonic() < last:
                missing -= {rank for rank in missing if self._store.check([f"alive {rank}"])}
                time.sleep(0.05)
        names = ", ".join(map(str, sorted(missing - {self.number}))) or "unknown"
        why = reason.splitlines()[0].rpartition("] ")[2].partition(". ")[0]
        return (
            f"expected {self.count} ranks to be connected, but rank {names} has stopped or hangs (seen by "
            f"rank {self.number}: {why:.200}). Run the same command again to resume from the last checkpoint."
        )


def find_ranks(device: "torch.device") -> Ranks:
    """Return the ranks of this run: those that torchrun started, or a single one."""
    if _count() == 1:
        return SINGLE
    if device.index is not None:
        raise RemnantError(
            f"device: expected auto, cpu or cuda with {_count()} ranks, each of which uses a GPU of its own, "
            f"got {device}."
        )
    return _joined(device.type)


@cache
def _joined(device: str) -> RankGroup:
    import torch.distributed as dist

    number, count, store = _number(), _count(), _connected()
    # The default group is for waiting; connecting the other one needs no patience after that.
    dist.init_process_group("gloo", store=store, rank=number, world_size=count, timeout=FILES)
    backend = "gloo"
    if device == "cuda":
        import torch

        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    group = dist.new_group(backend=backend, timeout=IN_STEP)
    return RankGroup(number, count, group, store)


@cache
def _connected() -> "Store":
    """Return the store of torchrun, by which its processes find each other."""
    from torch.distributed.rendezvous import rendezvous

    store: Store = next(rendezvous("env://", timeout=START))[0]
    return store


def _number() -> int:
    return int(os.environ.get("RANK", 0))


def _count() -> int:
    return int(os.environ.get("WORLD_SIZE", 1))


def is_first_rank() -> bool:
    """Return whether this process is rank 0, which writes files and prints."""
    return _number() == 0


def check_single(what: str) -> None:
    """Raise RemnantError if there are several ranks; `what` is done by a single process only."""
    if _count() > 1:
        raise RemnantError(f"{what}: expected a single process, got {_count()}. Run it without torchrun.")


def reports_errors() -> bool:
    """Return whether this process prints its error: if several ranks fail, the first one of them does."""
    if _count() == 1:
        return True
    try:
        return _connected().add("errors", 1) == 1
    except RuntimeError:  # torchrun is gone
        return True


def on_first(ranks: Ranks, work: Callable[[], object]) -> bytes:
    """Do something on rank 0 while the others wait, and return its result on all ranks if it is bytes."""
    result = work() if ranks.number == 0 else b""
    return ranks.gather(result if isinstance(result, bytes) else b"")[0]


@contextlib.contextmanager
def first_in_turn(ranks: Ranks) -> Iterator[None]:
    """Do something on rank 0 first, then on the others, for what writes files that the others only read."""
    if ranks.number > 0:
        ranks.gather(b"")
    yield
    if ranks.number == 0:
        ranks.gather(b"")


def check_equal(ranks: Ranks, what: str, content: Callable[[], bytes]) -> None:
    """Raise RemnantError, with the numbers of the ranks, if their content is not that of rank 0."""
    if ranks.count == 1:
        return
    digests = ranks.gather(hashlib.sha256(content()).digest())
    others = [str(rank) for rank, digest in enumerate(digests) if digest != digests[0]]
    if others:
        raise RemnantError(
            f"expected {what} on all ranks, but rank {', '.join(others)} differs from rank 0. Use the same "
            "command, files, software and kind of processor on every rank, and run it again: the run resumes "
            "from its last checkpoint."
        )
