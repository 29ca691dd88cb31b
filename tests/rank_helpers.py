"""Ranks in the tests: forked processes that are connected by gloo, as those of torchrun are."""

import contextlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from remnant.engine.parallel.ranks import RankGroup, find_ranks

CPU = torch.device("cpu")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def in_ranks(count: int, folder: Path, work: Callable[[], Any]) -> list[Any]:
    """Do something in several ranks; return what each returned (as JSON), or the text of its error."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(count)}
    paths = [folder / f"rank-{rank}.json" for rank in range(count)]
    children = []
    for rank, path in enumerate(paths):
        path.unlink(missing_ok=True)
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                os.environ |= address | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                _do(work, path)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return [json.loads(path.read_text()) if path.exists() else "killed" for path in paths]


def _do(work: Callable[[], Any], result: Path) -> None:
    try:
        found = work()
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"
    result.write_text(json.dumps(found))


def group() -> RankGroup:
    """Return the ranks of this process, which must be one of several."""
    ranks = find_ranks(CPU)
    assert isinstance(ranks, RankGroup)
    return ranks
