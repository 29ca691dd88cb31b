"""Errors that a user can fix. The command line prints them without a traceback."""

import difflib
from collections.abc import Iterable, Mapping


class RemnantError(Exception):
    """An error whose message states what was expected, what was found, and what to do next."""


class Interrupted(RemnantError):
    """A run was stopped by a signal and has saved its state."""


class Diverged(RemnantError):
    """Training produced NaN or infinity."""


def unmet(expected: Mapping[str, object]) -> list[str]:
    """Return the expectations that do not hold.

    >>> unmet({"a name": True, "two samples": False})
    ['two samples']
    """
    return [what for what, holds in expected.items() if not holds]


def nearest(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the most similar of `names`, or a full stop if none is similar.

    >>> nearest("er-acee", ["er", "er-ace", "aer"])
    "; did you mean 'er-ace'?"
    >>> nearest("transformer", ["er", "aer"])
    '.'
    """
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else "."
