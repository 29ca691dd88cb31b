"""What noise did: how many rows of each true class are observed as each class, as text and picture."""

from remnant.transition.counts import headline, rates, transitions
from remnant.transition.picture import picture
from remnant.transition.text import table

__all__ = ["headline", "picture", "rates", "table", "transitions"]
