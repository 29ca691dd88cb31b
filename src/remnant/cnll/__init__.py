"""CNLL (Karim et al., 2022): rows wait, are judged clean or noisy, and teach accordingly."""

from remnant.cnll.learner import CnllLearner
from remnant.cnll.settings import Cnll

__all__ = ["Cnll", "CnllLearner"]
