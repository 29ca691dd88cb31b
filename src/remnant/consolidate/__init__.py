"""The end of a task: what is done with the memory alone (Sec. 3.3 and appendix A)."""

from remnant.consolidate.buffer_fit import BufferFit
from remnant.consolidate.choice import Bench, Consolidation, Nothing
from remnant.consolidate.coteaching import CoTeaching
from remnant.consolidate.dividemix import DivideMix
from remnant.consolidate.fit import Fit
from remnant.consolidate.mixmatch import MixMatch
from remnant.consolidate.puridiver import PuriDivER

CONSOLIDATIONS: dict[str, Consolidation | Nothing] = {
    "none": Nothing(),
    "buffer-fit": BufferFit(),
    "mixmatch": MixMatch(),
    "coteaching": CoTeaching(),
    "dividemix": DivideMix(),
    "puridiver": PuriDivER(),
}

__all__ = [
    "CONSOLIDATIONS",
    "Bench",
    "BufferFit",
    "CoTeaching",
    "Consolidation",
    "DivideMix",
    "Fit",
    "MixMatch",
    "Nothing",
    "PuriDivER",
]
