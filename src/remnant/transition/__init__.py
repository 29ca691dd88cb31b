"""What noise did: how many rows of each true class are observed as each class, as text and picture."""

from remnant.transition.counts import headline, rates, transitions, wrong_of
from remnant.transition.picture import picture
from remnant.transition.text import given_table, table

__all__ = ["given_table", "headline", "picture", "rates", "table", "transitions", "wrong_of"]
