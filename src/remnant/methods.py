"""Every method, one line each: six choices, the rows of a table being `replace(...)` of one another.

Two methods are learners of their own, with settings in place of the six choices.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from remnant.cnll import Cnll
from remnant.component import is_same_but_tuned
from remnant.consolidate import (
    BufferFit,
    Consolidation,
    CoTeaching,
    DivideMix,
    MixMatch,
    Nothing,
    PuriDivER,
)
from remnant.data.source import Spec
from remnant.insertion import Everything, Insertion, LowestLoss
from remnant.objective import AsymmetricCrossEntropy, CrossEntropy, DarkReplay, Objective, OneBatch
from remnant.protocol import CONSOLIDATE, STREAM, Plan, Work
from remnant.replacement import (
    GreedyBalanced,
    PurityDiversity,
    Replacement,
    Reservoir,
    asymmetric_victim,
    loss_aware_victim,
)
from remnant.schedule import Alternate, Always, Collect, Phase, Schedule, StreamOnly, WriteFirst, phases
from remnant.scoring import Scoring
from remnant.spr import Spr


@dataclass(frozen=True)
class Replay:
    """Algorithm 1, with the six choices."""

    def budget(self, buffer: int) -> int:
        """Return how many rows its memory may hold."""
        return buffer

    def rate_of(self, work: str) -> str:
        """Return the setting that says how fast a kind of work learns."""
        return "consolidation.lr" if work == CONSOLIDATE else "lr"


PASTING = ("objective", "consolidation")  # choices that may use CutMix
LEARNERS: dict[str, Replay | Spr | Cnll] = {"replay": Replay(), "spr": Spr(), "cnll": Cnll()}


@dataclass(frozen=True, kw_only=True)
class Method:
    """What a learner does, as a value."""

    objective: Objective = CrossEntropy()
    schedule: Schedule = Always()
    scoring: Scoring = Scoring()
    insertion: Insertion = Everything()
    replacement: Replacement = Reservoir()
    consolidation: Consolidation | Nothing = Nothing()
    learner: Replay | Spr | Cnll = Replay()  # any but the first leaves the six choices alone
    about: str = field(default="", compare=False)

    def uses_memory(self, epochs: int) -> bool:
        """Whether any epoch replays or writes."""
        return any(phase & (Phase.REPLAY | Phase.WRITE) for phase in phases(self.schedule, epochs))

    def plan(self, rows: Sequence[int], epochs: int, batch: int, buffer: int) -> Plan:
        """Return the steps on tasks of so many rows, by the kind of work."""
        if not isinstance(self.learner, Replay):
            return self.learner.sized(buffer).plan(rows, epochs, batch)
        busy, fit = sum(map(bool, phases(self.schedule, epochs))), self.consolidation
        plan = {STREAM: Work(busy * sum(math.ceil(n / batch) for n in rows), busy)}
        if fit.epochs:
            steps = len(rows) * fit.epochs * fit.steps(buffer)
            plan[CONSOLIDATE] = Work(steps, fit.epochs)
        return plan

    def is_same_but_tuned(self, other: "Method") -> bool:
        """Whether the two differ in rates and the like at most."""
        choices = [choice.name for choice in fields(self) if choice.compare]
        return all(is_same_but_tuned(getattr(self, c), getattr(other, c)) for c in choices)

    def on(self, spec: Spec) -> "Method":
        """Return the method as it is for a data set: only images can be pasted together."""
        changes = {} if spec.are_images else {choice: self._unpasted(choice) for choice in PASTING}
        return replace(self, **changes)

    def _unpasted(self, choice: str) -> Any:  # noqa: ANN401
        value = getattr(self, choice)
        return replace(value, cutmix=0.0) if hasattr(value, "cutmix") else value

    def for_images_only(self) -> Iterator[tuple[str, str]]:
        """Yield each choice that needs images, and what to choose instead."""
        if isinstance(self.learner, Spr):
            yield "learner", "SPR crops and colours images; take another method"
        for choice in PASTING:
            if getattr(getattr(self, choice), "cutmix", 0):
                yield choice, f"CutMix pastes rectangles of images; set {choice}.cutmix=0"


LOSS_AWARE, BALANCED = Reservoir(loss_aware_victim), Reservoir(asymmetric_victim)

ER = Method(about="experience replay")
FINETUNE = Method(schedule=StreamOnly(), about="each task in turn, no memory: the lower bound")
JOINT = replace(FINETUNE, about="all tasks at once: the upper bound")  # made so by the stream
ER_ACE = Method(objective=AsymmetricCrossEntropy(), about="replay with asymmetric cross-entropy")
ER_ACE_ALPHA = replace(ER_ACE, insertion=LowestLoss(), about="er-ace that stores low losses only")
AER = replace(ER_ACE_ALPHA, schedule=Alternate(), about="er-ace+alpha with forgetting epochs")
ABS = replace(ER_ACE_ALPHA, replacement=BALANCED, about="er-ace+alpha with balanced sampling")
AER_LASS = replace(AER, replacement=LOSS_AWARE, about="aer that evicts high losses everywhere")
AER_ABS = replace(AER, replacement=BALANCED, about="aer with balanced sampling: the paper's method")
AER_ABS_NOACE = replace(AER_ABS, objective=CrossEntropy(), about="aer-abs, plain cross-entropy")
DER = replace(ER, objective=DarkReplay(), about="dark replay: stored labels and stored logits")
DER_AER_ABS = replace(AER_ABS, objective=DarkReplay(), about="der++ with the paper's choices")

ER_FIT = replace(ER, consolidation=BufferFit(), about="er, then cross-entropy on the memory")
ER_COTEACHING = replace(ER, consolidation=CoTeaching(), about="er, then co-teaching on the memory")
ER_DIVIDEMIX = replace(ER, consolidation=DivideMix(), about="er, then DivideMix on the memory")
AER_ABS_FIT = replace(AER_ABS, consolidation=BufferFit(), about="aer-abs, then buffer fit")
AER_ABS_CONSOLIDATION = replace(
    AER_ABS, consolidation=MixMatch(), about="aer-abs, then MixMatch on the memory: the paper's best"
)

Kind = TypeVar("Kind", bound=Consolidation)


def anew(consolidation: Kind) -> Kind:
    """Start from scratch, with the optimizer of GDumb."""
    return replace(consolidation, from_scratch=True, momentum=0.9, weight_decay=1e-6, clip=10.0)


GDUMB = Method(
    schedule=Collect(),
    replacement=GreedyBalanced(),
    consolidation=anew(BufferFit(batch=16, cutmix=0.5)),
    about="a balanced memory, and a new network that learns from it alone",
)
GDUMB_COTEACHING = replace(
    GDUMB, consolidation=anew(CoTeaching(batch=16, cutmix=0.5)), about="gdumb with co-teaching"
)
GDUMB_DIVIDEMIX = replace(GDUMB, consolidation=anew(DivideMix()), about="gdumb with DivideMix")

PURIDIVER = Method(
    objective=OneBatch(),
    replacement=PurityDiversity(),
    consolidation=PuriDivER(),
    about="a memory of low losses that differ, learned from semi-supervised",
)
PURIDIVER_ME = replace(
    PURIDIVER, schedule=WriteFirst(), about="puridiver that writes in the first epoch of a task only"
)

SPR = Method(learner=Spr(), about="self-purified replay: features without labels, a central memory")
CNLL = Method(learner=Cnll(), about="five buffers: a delay, what is clean, what is noisy, two stores")
CNLL_UNLIMITED = replace(CNLL, learner=Cnll(unlimited=True), about="cnll whose stores have no end")

METHODS: dict[str, Method] = {
    "finetune": FINETUNE,
    "joint": JOINT,
    "er": ER,
    "er-ace": ER_ACE,
    "er-ace+alpha": ER_ACE_ALPHA,
    "aer": AER,
    "abs": ABS,
    "aer-lass": AER_LASS,
    "aer-abs": AER_ABS,
    "aer-abs-noace": AER_ABS_NOACE,
    "der++": DER,
    "der++-aer-abs": DER_AER_ABS,
    "er+fit": ER_FIT,
    "er+coteaching": ER_COTEACHING,
    "er+dividemix": ER_DIVIDEMIX,
    "aer-abs+fit": AER_ABS_FIT,
    "aer-abs+consolidation": AER_ABS_CONSOLIDATION,
    "gdumb": GDUMB,
    "gdumb+coteaching": GDUMB_COTEACHING,
    "gdumb+dividemix": GDUMB_DIVIDEMIX,
    "puridiver": PURIDIVER,
    "puridiver.me": PURIDIVER_ME,
    "spr": SPR,
    "cnll": CNLL,
    "cnll.unlimited": CNLL_UNLIMITED,
}
