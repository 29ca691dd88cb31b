import math

import pytest
import torch

from remnant.engine.backend import Backend, has_bf16
from remnant.engine.diagnosis import facts, is_as_known, self_test


@pytest.mark.parametrize("channels_last", [False, True])
def test_the_self_test_gives_the_known_loss_in_both_precisions(channels_last: bool) -> None:
    for precision in ("float32", "bf16"):
        loss = self_test(Backend(precision=precision, channels_last=channels_last))
        assert is_as_known(loss, precision)


@pytest.mark.parametrize("wrong", [0.3, 0.4, math.nan])
def test_another_loss_is_wrong(wrong: float) -> None:
    assert not is_as_known(wrong, "float32")


def test_the_facts_name_what_torch_computes_with() -> None:
    assert torch.backends.cpu.get_cpu_capability() in facts()["processor"]


@pytest.mark.skipif(torch.accelerator.is_available(), reason="auto chooses the GPU")
def test_the_facts_say_what_auto_chooses_on_a_cpu() -> None:
    found = facts()
    assert found["device=auto"] == "cpu (no GPU that torch can use)"
    assert found["precision=auto"].startswith("bf16" if has_bf16(torch.device("cpu")) else "float32")
    assert found["channels_last=auto"] == "true if no convolution has fewer than 8 channels: faster on CPUs"
