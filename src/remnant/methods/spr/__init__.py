"""SPR, self-purified replay (Kim et al., 2021): an algorithm with its own training loop."""

from remnant.methods.spr.method import Spr as Spr
