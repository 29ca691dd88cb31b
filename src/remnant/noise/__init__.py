"""Label noise: components that return the observed label of each training sample.

Noise is applied once to the whole training set, before it is split into tasks. Test labels are unchanged.
Any function `(dataset, rng) -> labels` is a valid noise. The classes here add settings and checks. A noise
that changes inputs, too, returns a dataset instead of labels.
"""

from remnant.noise.base import Noise as Noise
from remnant.noise.by_class import (
    Asymmetric as Asymmetric,
    Block as Block,
    Clean as Clean,
    Given as Given,
    SuperclassRandom as SuperclassRandom,
    Symmetric as Symmetric,
    next_in_group as next_in_group,
    pair_flip as pair_flip,
    symmetric as symmetric,
)
from remnant.noise.by_instance import Instance as Instance
from remnant.noise.from_file import FromFile as FromFile
from remnant.noise.human import Human as Human
from remnant.noise.matrix import Matrix as Matrix
from remnant.noise.open_set import OpenSet as OpenSet
from remnant.noise.registry import (
    NOISES as NOISES,
    check_clean as check_clean,
    check_fits as check_fits,
)
