"""How many samples of the last task the network predicts as they are labelled, as a sentence for users."""

from collections import Counter
from collections.abc import Sequence

from remnant.suspects.table import Suspect

MOST = 5  # classes that are named


def agreement(table: Sequence[Suspect]) -> tuple[str, str]:
    """Return how many labels of the last task the network predicts, and a warning about classes.

    A warning names the classes of which fewer than half of the labels are predicted, the rarest first;
    it is empty if there are none. Without samples, both texts are empty.
    """
    last = max((row.task for row in table), default=0)
    rows = [row for row in table if row.task == last]
    if not rows:
        return "", ""
    given = Counter(row.given for row in rows)
    right = Counter(row.given for row in rows if row.suggested == row.given)
    about = f"the network predicts the given label of {right.total():,} of {given.total():,} new samples"
    poor = sorted(
        (name for name in given if 2 * right[name] < given[name]), key=lambda n: right[n] / given[n]
    )
    parts = [f"{right[name]:,} of {given[name]:,} samples of {name}" for name in poor[:MOST]]
    more = f" and of {len(poor) - MOST:,} more classes" if len(poor) > MOST else ""
    warning = (
        f"warning: the network predicts the given label of only {', '.join(parts)}{more}. They may need more "
        "epochs, or other labels."
    )
    return about, warning if poor else ""
