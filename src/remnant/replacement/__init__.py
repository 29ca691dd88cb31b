"""Who enters the memory and who leaves it (Sec. 3.2, sample selection; Alg. 1 lines 4, 9, 10)."""

from remnant.replacement.choice import Candidates, Losses, Offer, Replacement
from remnant.replacement.greedy import GreedyBalanced
from remnant.replacement.purity_diversity import PurityDiversity
from remnant.replacement.reservoir import (
    Draft,
    Reservoir,
    Victim,
    asymmetric_victim,
    loss_aware_victim,
    pick,
    uniform_victim,
)

REPLACEMENTS: dict[str, Replacement] = {
    "reservoir": Reservoir(),
    "lass": Reservoir(loss_aware_victim),
    "abs": Reservoir(asymmetric_victim),
    "greedy-balanced": GreedyBalanced(),
    "purity-diversity": PurityDiversity(),
}

__all__ = [
    "REPLACEMENTS",
    "Candidates",
    "Draft",
    "GreedyBalanced",
    "Losses",
    "Offer",
    "PurityDiversity",
    "Replacement",
    "Reservoir",
    "Victim",
    "asymmetric_victim",
    "loss_aware_victim",
    "pick",
    "uniform_victim",
]
