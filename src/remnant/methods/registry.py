"""Registry of all methods by name.

A replay method is a combination of seven components. SPR and CNLL are algorithms with their own training
loops.
"""

from dataclasses import replace
from typing import TypeVar

from remnant.buffer import (
    GreedyBalanced,
    LowestLoss,
    PurityDiversity,
    Reservoir,
    asymmetric_victim,
    loss_aware_victim,
)
from remnant.methods.cnll import Cnll
from remnant.methods.consolidation import (
    BufferFit,
    Consolidation,
    CoTeaching,
    DivideMix,
    MixMatch,
    PuriDivER,
)
from remnant.methods.epoch_schedule import (
    Alternate,
    Collect,
    Phase,
    ReplayOnly,
    StreamOnly,
    WriteFirst,
    phases,
)
from remnant.methods.objective import AsymmetricCrossEntropy, CrossEntropy, DarkReplay, OneBatch
from remnant.methods.protocol import Algorithm
from remnant.methods.rebuild import Trusted
from remnant.methods.replay import Replay
from remnant.methods.spr import Spr

ALGORITHMS: dict[str, Algorithm] = {"replay": Replay(), "spr": Spr(), "cnll": Cnll()}

LOSS_AWARE, BALANCED = Reservoir(loss_aware_victim), Reservoir(asymmetric_victim)

ER = Replay(about="experience replay")
FINETUNE = Replay(schedule=StreamOnly(), about="each task in turn without a buffer: the lower bound")
JOINT = replace(FINETUNE, about="all tasks at once: the upper bound")  # the stream has a single task
ER_ACE = Replay(objective=AsymmetricCrossEntropy(), about="replay with asymmetric cross-entropy")
ER_ACE_ALPHA = replace(ER_ACE, insertion=LowestLoss(), about="er-ace that inserts low-loss samples only")
AER = replace(ER_ACE_ALPHA, schedule=Alternate(), about="er-ace+alpha with forgetting epochs")
ABS = replace(ER_ACE_ALPHA, replacement=BALANCED, about="er-ace+alpha with asymmetric balanced sampling")
AER_LASS = replace(AER, replacement=LOSS_AWARE, about="aer that evicts by loss, regardless of the task")
AER_ABS = replace(AER, replacement=BALANCED, about="aer with abs: the paper's method")
AER_ABS_NOACE = replace(AER_ABS, objective=CrossEntropy(), about="aer-abs with plain cross-entropy")
DER = replace(ER, objective=DarkReplay(), about="dark experience replay: stored labels and logits")
DER_AER_ABS = replace(AER_ABS, objective=DarkReplay(), about="der++ with the components of aer-abs")
TRACE = replace(
    ER_ACE, schedule=ReplayOnly(), rebuild=Trusted(), about="er-ace; stores trusted samples after each task"
)

Kind = TypeVar("Kind", bound=Consolidation)


def from_scratch(consolidation: Kind) -> Kind:
    """Return a consolidation that trains new networks with the optimizer of GDumb."""
    return replace(consolidation, from_scratch=True, momentum=0.9, weight_decay=1e-6, clip=10.0)


GDUMB = Replay(
    schedule=Collect(),
    replacement=GreedyBalanced(),
    consolidation=from_scratch(BufferFit(batch=16, cutmix=0.5)),
    about="a class-balanced buffer, and a new network trained on it alone",
)
GDUMB_COTEACHING = replace(
    GDUMB, consolidation=from_scratch(CoTeaching(batch=16, cutmix=0.5)), about="gdumb with co-teaching"
)
GDUMB_DIVIDEMIX = replace(GDUMB, consolidation=from_scratch(DivideMix()), about="gdumb with DivideMix")
PURIDIVER = Replay(
    objective=OneBatch(),
    replacement=PurityDiversity(),
    consolidation=PuriDivER(),
    about="a buffer of low-loss, diverse samples; semi-supervised training on it",
)
PURIDIVER_ME = replace(
    PURIDIVER, schedule=WriteFirst(), about="puridiver that writes in the first epoch of a task only"
)

# Suffixes that add a consolidation to a replay method: name+suffix.
SUFFIXES: dict[str, Consolidation] = {
    "fit": BufferFit(),
    "consolidation": MixMatch(),
    "coteaching": CoTeaching(),
    "dividemix": DivideMix(),
}
SUFFIX_ABOUT = {
    "fit": "cross-entropy on the buffer",
    "consolidation": "MixMatch on the buffer",
    "coteaching": "co-teaching on the buffer",
    "dividemix": "DivideMix on the buffer",
}


def with_suffix(method: Algorithm, name: str, suffix: str) -> Algorithm | None:
    """Return a replay method with the consolidation of a suffix; None for other methods."""
    if getattr(getattr(method, "consolidation", None), "epochs", None) != 0:
        return None
    about = f"{name}, then {SUFFIX_ABOUT[suffix]} at the end of each task"
    return replace(method, consolidation=SUFFIXES[suffix], about=about)  # type: ignore[type-var]


METHODS: dict[str, Algorithm] = {
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
    "er+fit": replace(ER, consolidation=BufferFit(), about="er, then cross-entropy on the buffer"),
    "er+coteaching": replace(ER, consolidation=CoTeaching(), about="er, then co-teaching on the buffer"),
    "er+dividemix": replace(ER, consolidation=DivideMix(), about="er, then DivideMix on the buffer"),
    "aer-abs+fit": replace(AER_ABS, consolidation=BufferFit(), about="aer-abs, then buffer fit"),
    "aer-abs+consolidation": replace(
        AER_ABS, consolidation=MixMatch(), about="aer-abs, then MixMatch on the buffer: the paper's best"
    ),
    "trace-nofit": TRACE,
    "trace": replace(TRACE, consolidation=BufferFit(), about="trace-nofit, then cross-entropy on the buffer"),
    "gdumb": GDUMB,
    "gdumb+coteaching": GDUMB_COTEACHING,
    "gdumb+dividemix": GDUMB_DIVIDEMIX,
    "puridiver": PURIDIVER,
    "puridiver.me": PURIDIVER_ME,
    "spr": Spr(about="self-purified replay: self-supervised features, a buffer of central samples"),
    "cnll": Cnll(about="five buffers: delay, clean, noisy, and two replay stores"),
    "cnll.unlimited": Cnll(unlimited=True, about="cnll whose replay stores grow without limit"),
}


def trains_on_stream(method: Algorithm, epochs: int) -> bool:
    """Return whether a method has statistics of its training on the stream, by which labels are judged.

    An algorithm with its own training loop trains on the stream if it uses the learning rate of the stream.
    """
    schedule = getattr(method, "schedule", None)
    if schedule is None:
        return "lr" not in method.unused
    return any(Phase.TRAIN in phase for phase in phases(schedule, epochs))
