"""Mistakes a user can mend. The command line prints them without a traceback."""

import difflib
from collections.abc import Iterable, Mapping


class RemnantError(Exception):
    """Says what was expected, what was found, and what to do next."""


class Interrupted(RemnantError):
    """A run was asked to stop and has saved its state."""


class Diverged(RemnantError):
    """Training has left the finite numbers."""


def unmet(expected: Mapping[str, object]) -> list[str]:
    """Return what is expected and not so.

    >>> unmet({"a name": True, "two rows": False})
    ['two rows']
    """
    return [what for what, is_so in expected.items() if not is_so]


def nearest(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest of `names`, or a full stop if none is close.

    >>> nearest("er-acee", ["er", "er-ace", "aer"])
    "; did you mean 'er-ace'?"
    >>> nearest("transformer", ["er", "aer"])
    '.'
    """
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else "."
