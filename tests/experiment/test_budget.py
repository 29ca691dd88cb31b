"""Methods with several buffers in a run: their budget, their reports, and resuming after a kill."""

import random
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import tiny_config
from run_helpers import RunIn, assert_identical, result, run_to_end, run_to_step

from remnant.buffer.buffer import Buffer
from remnant.config import Config
from remnant.errors import RemnantError
from remnant.methods.epoch_schedule import Phase
from remnant.methods.spr.learner import SprLearner

SPR = {"expert_steps": 4, "base_steps": 4, "batch": 10, "features": 6, "finetune_epochs": 2}
CNLL = {"warmup_epochs": 1, "finetune_epochs": 2, "batch": 8, "clean_kept": 3, "noisy_kept": 3}
FIT = {"epochs": 8, "warmup": 1}
SHORT: dict[str, dict[str, Any]] = {
    "spr": {"algorithm": SPR},
    "cnll": {"algorithm": CNLL},
    "cnll.unlimited": {"algorithm": CNLL},
    "puridiver": {"consolidation": FIT},
    "puridiver.me": {"consolidation": FIT},
}
BUFFERS = {"spr": 2, "cnll": 5, "cnll.unlimited": 5, "puridiver": 1, "puridiver.me": 1}


def tiny(method: str, **changes: Any) -> Config:  # noqa: ANN401
    return tiny_config(method=method, tasks=2, epochs=2, **SHORT[method], **changes)


def full(samples: int) -> Buffer:
    buffer = Buffer(samples, (1,))
    buffer.size = samples
    return buffer


def test_a_method_that_stores_more_samples_than_its_budget_is_stopped(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SprLearner, "buffers", lambda self: {"empty": Buffer(99, (1,)), "full": full(41)})
    with pytest.raises(
        RemnantError, match="expected at most 40 samples in all buffers with buffer_size = 20, got 41"
    ):
        run_in(tiny("spr"))


def test_the_peak_of_all_buffers_together_is_reported_with_the_budget(run_in: RunIn) -> None:
    samples = result(run_in(tiny("spr")))["buffer_samples"]
    assert samples["budget"] == 40
    assert 20 < samples["peak"] <= 40


def test_an_unlimited_method_has_no_budget(run_in: RunIn) -> None:
    samples = result(run_in(tiny("cnll.unlimited")))["buffer_samples"]
    assert samples["budget"] is None
    assert samples["peak"] > 0


@pytest.mark.parametrize("method", ["spr", "cnll"])
def test_the_smallest_buffer_is_enough(run_in: RunIn, method: str) -> None:
    short = {"expert_steps": 2, "base_steps": 2} if method == "spr" else {"finetune_epochs": 1}
    config = tiny_config(method=method, per_class=4, epochs=1, buffer_size=2, algorithm=short)
    samples = result(run_in(config))["buffer_samples"]
    assert 0 < samples["peak"] <= samples["budget"] == config.algorithm.budget(2)


def test_a_buffer_larger_than_the_task_is_filtered_too(run_in: RunIn) -> None:
    found = result(run_in(tiny("spr", buffer_size=500)))
    assert found["buffers"]["purified"]["size"] > 0


@pytest.mark.parametrize("method", SHORT)
def test_each_buffer_is_reported_and_written_to_a_file(run_in: RunIn, method: str) -> None:
    folder = run_in(tiny(method))
    found = result(folder)
    assert len(found["buffers"]) == BUFFERS[method]
    for name, report in found["buffers"].items():
        assert (folder / f"{name}.safetensors").exists() == (report["size"] > 0)
        assert (report["purity"] is None) == (report["size"] == 0)
        if BUFFERS[method] > 1:
            assert 0 <= report["mean_purity"] <= 100
    assert next(iter(found["buffers"].values()))["size"] > 0
    assert found["buffer_samples"]["peak"] > 0


def test_the_delay_buffer_is_as_pure_as_the_stream(run_in: RunIn) -> None:
    folder = run_in(tiny_config(method="cnll", epochs=2, algorithm=CNLL, noise="symmetric:0.5"))
    assert result(folder)["buffers"]["delay"]["mean_purity"] == pytest.approx(50, abs=5)


def test_a_replacement_that_uses_features_works_with_any_insertion(run_in: RunIn) -> None:
    config = tiny_config(method="aer-abs", tasks=2, epochs=2, replacement="purity-diversity")
    assert result(run_in(config))["buffer"]["size"] == config.buffer_size


def test_the_error_after_a_divergence_names_the_learning_rate_to_lower(run_in: RunIn) -> None:
    diverging = CNLL | {"finetune_lr": 1e30}
    with pytest.raises(RemnantError, match=r"\(fine-tuning\).*algorithm\.finetune_lr=0\.1$"):
        run_in(tiny_config(method="cnll", epochs=2, algorithm=diverging))


@pytest.mark.parametrize("method", SHORT)
@pytest.mark.slow
def test_a_run_killed_at_random_steps_resumes_to_the_same_bytes(
    run_in: RunIn, tmp_path: Path, method: str
) -> None:
    config, rng = tiny(method), random.Random(method)
    whole, out = run_in(config, "whole"), tmp_path / "killed"
    for kill in range(4):
        steps, phase = rng.randint(2, 7), rng.choice([Phase.IDLE, Phase.CONSOLIDATE])
        assert run_to_step(config, out, steps, phase) == signal.SIGKILL, kill
    assert_identical(whole, run_to_end(config, out))
