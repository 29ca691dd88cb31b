"""Short runs of every method, which are interrupted and resumed several times."""

from pathlib import Path
from typing import Any

from conftest import tiny_config
from run_helpers import StopAt

from remnant.config import Config
from remnant.errors import Interrupted
from remnant.experiment.run import execute
from remnant.experiment.runner import Options
from remnant.methods.registry import METHODS

SPR = {"expert_steps": 4, "base_steps": 4, "batch": 10, "features": 6, "finetune_epochs": 2}
CNLL = {"warmup_epochs": 1, "finetune_epochs": 2, "batch": 8, "clean_kept": 3, "noisy_kept": 3}


def short(method: str, **changes: Any) -> Config:  # noqa: ANN401
    """Return a config with two tasks of two epochs, and four epochs of consolidation."""
    consolidation = getattr(METHODS[method], "consolidation", None)
    if consolidation is None:
        changes |= {"algorithm": SPR if method == "spr" else CNLL}
    elif consolidation.epochs:
        warmup = {"warmup": 1} if hasattr(consolidation, "warmup") else {}
        changes |= {"consolidation": {"epochs": 4, "batch": 8} | warmup}
    return tiny_config(**({"method": method, "tasks": 2, "epochs": 2} | changes))


def run_in_parts(config: Config, out: Path, steps: int) -> tuple[Path, int]:
    """Run to the end, interrupted after so many steps again and again; return the folder and the parts."""
    parts = 1
    while True:
        try:
            return execute(config, Options(out=out), [StopAt(steps)]), parts
        except Interrupted:
            parts += 1
