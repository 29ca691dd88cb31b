"""Consolidation: training on the buffer alone at the end of a task (Sec. 3.3 and appendix A)."""

from remnant.methods.consolidation.base import (
    Consolidation as Consolidation,
    ConsolidationContext as ConsolidationContext,
    NoConsolidation as NoConsolidation,
)
from remnant.methods.consolidation.buffer_fit import BufferFit as BufferFit
from remnant.methods.consolidation.coteaching import CoTeaching as CoTeaching
from remnant.methods.consolidation.dividemix import DivideMix as DivideMix
from remnant.methods.consolidation.mixmatch import MixMatch as MixMatch
from remnant.methods.consolidation.puridiver import PuriDivER as PuriDivER

CONSOLIDATIONS: dict[str, Consolidation | NoConsolidation] = {
    "none": NoConsolidation(),
    "buffer-fit": BufferFit(),
    "mixmatch": MixMatch(),
    "coteaching": CoTeaching(),
    "dividemix": DivideMix(),
    "puridiver": PuriDivER(),
}
