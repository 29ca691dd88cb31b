"""The replay buffer and the policies that decide which samples it holds."""

from remnant.buffer.base import Candidates as Candidates, Choice as Choice, Replacement as Replacement
from remnant.buffer.buffer import Buffer as Buffer, ReplayBatch as ReplayBatch
from remnant.buffer.eviction import (
    Draft as Draft,
    asymmetric_victim as asymmetric_victim,
    loss_aware_victim as loss_aware_victim,
    pick as pick,
    uniform_victim as uniform_victim,
)
from remnant.buffer.greedy import GreedyBalanced as GreedyBalanced
from remnant.buffer.insertion import (
    INSERTIONS as INSERTIONS,
    Everything as Everything,
    Insertion as Insertion,
    LowestLoss as LowestLoss,
)
from remnant.buffer.purity_diversity import PurityDiversity as PurityDiversity
from remnant.buffer.reservoir import Reservoir as Reservoir
from remnant.buffer.scoring import SCORINGS as SCORINGS, Scoring as Scoring
from remnant.buffer.selection import Decision as Decision, Scorer as Scorer, Selection as Selection

REPLACEMENTS: dict[str, Replacement] = {
    "reservoir": Reservoir(),
    "lass": Reservoir(loss_aware_victim),
    "abs": Reservoir(asymmetric_victim),
    "greedy-balanced": GreedyBalanced(),
    "purity-diversity": PurityDiversity(),
}
