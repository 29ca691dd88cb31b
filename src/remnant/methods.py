"""Every method, one line each: five choices, the rows of a table being `replace(...)` of one another."""

from dataclasses import dataclass, field, replace

from remnant.insertion import Everything, Insertion, LowestLoss
from remnant.objective import AsymmetricCrossEntropy, CrossEntropy, DarkReplay, Objective
from remnant.replacement import Replacement, Reservoir, asymmetric_victim, loss_aware_victim
from remnant.schedule import Alternate, Always, Phase, Schedule, StreamOnly, phases
from remnant.scoring import Scoring


@dataclass(frozen=True, kw_only=True)
class Method:
    """What a learner does, as a value."""

    objective: Objective = CrossEntropy()
    schedule: Schedule = Always()
    scoring: Scoring = Scoring()
    insertion: Insertion = Everything()
    replacement: Replacement = Reservoir()
    about: str = field(default="", compare=False)

    def uses_memory(self, epochs: int) -> bool:
        """Whether any epoch replays or writes."""
        return any(phase & (Phase.REPLAY | Phase.WRITE) for phase in phases(self.schedule, epochs))


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
}
