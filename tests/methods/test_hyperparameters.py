"""Defaults and limits of the settings of all methods; docs/DEVIATIONS.md has the sources of the defaults."""

from typing import Any

import pytest

from remnant.methods.cnll.method import Cnll
from remnant.methods.consolidation.buffer_fit import BufferFit
from remnant.methods.consolidation.coteaching import CoTeaching
from remnant.methods.consolidation.dividemix import DivideMix
from remnant.methods.consolidation.mixmatch import MixMatch
from remnant.methods.consolidation.puridiver import PuriDivER
from remnant.methods.epoch_schedule import Alternate
from remnant.methods.objective import DarkReplay, OneBatch
from remnant.methods.rebuild import Trusted
from remnant.methods.spr.method import Spr
from remnant.settings import settings

# fmt: off
SGD = {"lr": 0.05, "epochs": 255, "batch": 64, "from_scratch": False, "momentum": 0.0, "nesterov": False,
       "weight_decay": 0.0, "clip": 0.0}
DEFAULTS: list[tuple[type, dict[str, Any]]] = [
    (BufferFit, SGD | {"cutmix": 0.0}),
    (CoTeaching, SGD | {"forget_rate": -1.0, "ramp": 10, "cutmix": 0.0}),
    (DivideMix, SGD | {"lambda_u": 25.0, "warmup": 10, "ramp": 16, "temperature": 0.5, "mixup": 4.0,
                       "confidence_penalty": False}),
    (MixMatch, SGD | {"lr": 0.1, "lambda_u": 0.01, "views": 3, "temperature": 0.5, "mixup": 0.5}),
    (PuriDivER, SGD | {"batch": 16, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4, "warmup": 10,
                       "cutmix": 0.5}),
    (Spr, {"delay": 0, "purified": 0, "expert_steps": 4000, "base_steps": 3000, "batch": 0, "lr": 3e-4,
           "temperature": 0.5, "features": 256, "finetune_epochs": 50, "finetune_batch": 16,
           "finetune_lr": 2e-3, "finetune_drop": 300, "clip": 0.5}),
    (Cnll, {"delay": 0, "clean": 0, "noisy": 0, "clean_store": 0, "noisy_store": 0, "unlimited": False,
            "clean_kept": 25, "noisy_kept": 50, "hardened": False, "batch": 64, "momentum": 0.9,
            "weight_decay": 5e-4, "warmup_epochs": 5, "warmup_lr": 0.025, "confidence_penalty": False,
            "finetune_epochs": 10, "finetune_lr": 0.025, "lambda_u": 30.0, "quiet": 5, "ramp": 16,
            "temperature": 0.5, "mixup": 4.0}),
    (DarkReplay, {"alpha": 0.1, "beta": 0.5}),
    (OneBatch, {"cutmix": 0.5}),
    (Alternate, {"period": 2}),
    (Trusted, {"share": 0.25}),
]
CONSOLIDATIONS = (BufferFit, CoTeaching, DivideMix, MixMatch, PuriDivER)
# Kinds, setting, smallest and largest accepted values (or values close to them), refused values.
TINY, BIG = 1e-9, 1e9
LIMITS: list[tuple[tuple[type, ...], str, list[float], list[float]]] = [
    (CONSOLIDATIONS, "lr", [TINY], [0.0, -1.0]),
    ((BufferFit, CoTeaching, MixMatch), "epochs", [1], [0]),
    (CONSOLIDATIONS, "batch", [3], [2]),
    ((BufferFit, CoTeaching, DivideMix, MixMatch), "momentum", [0.0, 0.99], [-0.1, 1.0]),
    (CONSOLIDATIONS, "weight_decay", [0.0], [-TINY]),
    (CONSOLIDATIONS, "clip", [0.0], [-TINY]),
    ((BufferFit, CoTeaching, PuriDivER, OneBatch), "cutmix", [0.0, 1.0], [-TINY, 1 + TINY]),
    ((CoTeaching,), "forget_rate", [-1.0, 0.0, 1 - TINY], [-0.5, 1.0]),
    ((CoTeaching, DivideMix, Cnll), "ramp", [1], [0]),
    ((DivideMix, MixMatch, Cnll), "lambda_u", [0.0], [-TINY]),
    ((DivideMix, MixMatch, Cnll, Spr), "temperature", [TINY], [0.0]),
    ((DivideMix, MixMatch, Cnll), "mixup", [TINY], [0.0]),
    ((DivideMix, PuriDivER), "warmup", [0, 254], [-1, 255]),
    ((MixMatch,), "views", [1], [0]),
    ((Spr,), "expert_steps", [1], [0]),
    ((Spr,), "base_steps", [1], [0]),
    ((Spr,), "features", [1], [0]),
    ((Spr,), "finetune_drop", [1], [0]),
    ((Spr, Cnll), "finetune_epochs", [1], [0]),
    ((Spr, Cnll), "finetune_lr", [TINY], [0.0]),
    ((Spr,), "finetune_batch", [3], [2]),
    ((Spr,), "lr", [TINY], [0.0]),
    ((Spr,), "batch", [0, 4], [-1, 3]),
    ((Spr,), "clip", [0.0], [-TINY]),
    ((Spr,), "purified", [0, 2], [-1, 1]),
    ((Spr, Cnll), "delay", [0, 2], [-1, 1]),
    ((Cnll,), "batch", [3], [2]),
    ((Cnll,), "momentum", [0.0, 0.99], [-0.1, 1.0]),
    ((Cnll,), "weight_decay", [0.0], [-TINY]),
    ((Cnll,), "warmup_lr", [TINY], [0.0]),
    *(((Cnll,), name, [0, 1], [-1])
      for name in ("clean", "noisy", "clean_store", "noisy_store", "clean_kept", "noisy_kept",
                   "warmup_epochs", "quiet")),
    ((DarkReplay,), "alpha", [0.0, BIG], [-TINY, float("inf")]),
    ((DarkReplay,), "beta", [0.0, BIG], [-TINY, float("inf")]),
    ((Alternate,), "period", [2], [1]),
    ((Trusted,), "share", [TINY, 1.0], [0.0, 1 + TINY]),
]
# fmt: on


@pytest.mark.parametrize(("kind", "expected"), DEFAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_defaults_are_those_of_the_publications(kind: type, expected: dict[str, Any]) -> None:
    assert settings(kind()) == expected


@pytest.mark.parametrize(
    ("kind", "name", "accepted", "refused"),
    [(kind, *rest) for kinds, *rest in LIMITS for kind in kinds],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_limits_of_a_setting(kind: type, name: str, accepted: list[float], refused: list[float]) -> None:
    others = {"nesterov": False} if kind is PuriDivER else {}
    for value in accepted:
        assert getattr(kind(**{name: value}, **others), name) == value
    for value in refused:
        with pytest.raises(ValueError, match=name):
            kind(**{name: value}, **others)


def test_nesterov_momentum_needs_momentum() -> None:
    with pytest.raises(ValueError, match="expected nesterov false if momentum is 0"):
        BufferFit(nesterov=True)
    assert BufferFit(nesterov=True, momentum=TINY).nesterov
