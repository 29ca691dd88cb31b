import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rank_helpers import CPU, group, in_ranks

from remnant.engine.parallel import ranks as module
from remnant.engine.parallel.ranks import (
    SINGLE,
    RankGroup,
    check_equal,
    check_single,
    find_ranks,
    first_in_turn,
    is_first_rank,
    on_first,
    reports_errors,
)
from remnant.errors import RemnantError


def test_a_process_that_torchrun_did_not_start_is_a_single_rank() -> None:
    assert find_ranks(CPU) is SINGLE
    assert (SINGLE.number, SINGLE.count, is_first_rank(), reports_errors()) == (0, 1, True, True)
    assert SINGLE.any(True, False) == (True, False)
    assert SINGLE.gather(b"content") == [b"content"]
    assert on_first(SINGLE, lambda: b"result") == b"result"
    net = torch.nn.Linear(1, 1)
    assert type(SINGLE.prepare(net)) is torch.nn.Linear


def test_a_single_rank_computes_no_digests() -> None:
    check_equal(SINGLE, "anything", lambda: pytest.fail("it was computed"))


def test_ranks_that_differ_from_rank_0_are_named() -> None:
    ranks: Any = SimpleNamespace(count=3, gather=lambda own: [own, b"other", b"other"])
    with pytest.raises(RemnantError, match="rank 1, 2 differs from rank 0"):
        check_equal(ranks, "equal weights", lambda: b"content")


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("batch", [5, 6, 32])
def test_shares_cover_a_batch_and_differ_by_at_most_one(count: int, batch: int) -> None:
    group: Any = None
    shares = [RankGroup(rank, count, group, group).share_of(batch) for rank in range(count)]
    assert [i for share in shares for i in range(share.start, share.end)] == list(range(batch))
    sizes = [share.end - share.start for share in shares]
    assert max(sizes) - min(sizes) <= 1


def test_ranks_exchange_flags_and_contents_of_any_size(tmp_path: Path) -> None:
    def work() -> list[Any]:
        ranks = group()
        found = [part.decode() for part in ranks.gather(b"x" * ranks.number)]
        return [ranks.any(ranks.number == 1, False), found, on_first(ranks, lambda: b"from 0").decode()]

    assert in_ranks(3, tmp_path, work) == [[[True, False], ["", "x", "xx"], "from 0"]] * 3


def test_the_first_rank_goes_first(tmp_path: Path) -> None:
    def work() -> bool:
        ranks = group()
        with first_in_turn(ranks):
            is_written = (tmp_path / "file").exists()
            time.sleep(0.1 * (ranks.number == 0))
            (tmp_path / "file").touch()
        return is_written

    assert in_ranks(3, tmp_path, work) == [False, True, True]


def test_a_rank_that_differs_is_named(tmp_path: Path) -> None:
    def work() -> None:
        ranks = group()
        check_equal(ranks, "the same names", lambda: b"equal")
        check_equal(ranks, "the same names", lambda: b"%d" % (ranks.number == 1))

    for found in in_ranks(3, tmp_path, work):
        assert found.startswith("RemnantError: expected the same names on all ranks, but rank 1 differs from")


def test_a_rank_that_dies_is_named_by_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROLL_CALL", 0.5)

    def work() -> None:
        ranks = group()
        ranks.any(True)
        if ranks.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        ranks.any(True)

    first, second, third = in_ranks(3, tmp_path, work)
    assert second == "killed"
    for rank, found in ((0, first), (2, third)):
        assert found.startswith(
            "RemnantError: expected 3 ranks to be connected, but rank 1 has stopped or hangs "
            f"(seen by rank {rank}: "
        )


def test_a_rank_that_hangs_is_named_after_the_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IN_STEP", module.timedelta(seconds=1))
    monkeypatch.setattr(module, "ROLL_CALL", 0.5)

    def work() -> None:
        ranks = group()
        if ranks.number == 1:
            time.sleep(3)
        else:
            ranks.any(True)

    first, second = in_ranks(2, tmp_path, work)
    assert second is None
    assert "but rank 1 has stopped or hangs (seen by rank 0: " in first


def test_one_rank_reports_an_error_that_all_have(tmp_path: Path) -> None:
    def work() -> bool:
        is_reported = reports_errors()
        group().gather(b"")  # rank 0, which has the list of errors, ends last
        return is_reported

    assert sorted(in_ranks(3, tmp_path, work)) == [False, False, True]


def test_several_ranks_need_a_device_each(tmp_path: Path) -> None:
    def work() -> None:
        find_ranks(torch.device("cuda:1"))

    expected = "RemnantError: device: expected auto, cpu or cuda with 2 ranks"
    assert all(found.startswith(expected) for found in in_ranks(2, tmp_path, work))


def test_what_a_single_process_does_is_refused_by_several(monkeypatch: pytest.MonkeyPatch) -> None:
    check_single("--dry-run")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RemnantError, match="--dry-run: expected a single process, got 2"):
        check_single("--dry-run")
