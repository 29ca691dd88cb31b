"""What can be named in a config: each kind of choice with the names it knows."""

from collections.abc import Mapping
from typing import Any

from remnant.consolidate import CONSOLIDATIONS
from remnant.insertion import INSERTIONS
from remnant.methods import LEARNERS
from remnant.nets import NETS
from remnant.noise import NOISES
from remnant.objective import OBJECTIVES
from remnant.replacement import REPLACEMENTS
from remnant.schedule import SCHEDULES
from remnant.scoring import SCORINGS

REGISTRIES: dict[str, Mapping[str, Any]] = {
    "noise": NOISES,
    "net": NETS,
    "objective": OBJECTIVES,
    "schedule": SCHEDULES,
    "scoring": SCORINGS,
    "insertion": INSERTIONS,
    "replacement": REPLACEMENTS,
    "consolidation": CONSOLIDATIONS,
    "learner": LEARNERS,
}
CHOICES = ("objective", "schedule", "scoring", "insertion", "replacement", "consolidation")
OF_REPLAY = ("lr", "lr_drops", "momentum", "weight_decay")  # other learners have rates of their own
OF_METHOD = (*CHOICES, "learner")  # what a method decides
