"""Self-purified replay (Kim et al., 2021): features without labels; what is central is kept."""

from remnant.spr.learner import SprLearner
from remnant.spr.settings import Spr

__all__ = ["Spr", "SprLearner"]
