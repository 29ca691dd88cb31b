"""Errors that a user can fix. The command line prints them without a traceback."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Mapping


class RemnantError(Exception):
    """An error whose message states what was expected, what was found, and what to do next."""


class Interrupted(KeyboardInterrupt):
    """A run was stopped by a signal and has saved its state.

    Like any KeyboardInterrupt, it is not caught by `except Exception`, which would start the next run.
    """


class UnknownRecipe(RemnantError):
    """A name is neither that of a packaged recipe nor the path of one."""


class MissingFiles(RemnantError):
    """Files of a dataset are not there; the message says which ones and how to get them."""


class Busy(RemnantError):
    """Another process is working on this run."""


class Diverged(RemnantError):
    """Training produced NaN or infinity."""


@contextlib.contextmanager
def memory_errors() -> Iterator[None]:
    """Convert errors that mean too little memory to a RemnantError; torch raises a RuntimeError for it."""
    try:
        yield
    except (MemoryError, RuntimeError, ImportError, OSError) as error:
        texts = (
            *("allocate memory", "not enough memory", "bad_alloc", "can't start new thread"),
            "failed to map segment",  # of a shared library
            "could not create a primitive",  # of oneDNN
        )
        if not isinstance(error, MemoryError) and not any(text in str(error) for text in texts):
            raise
        raise RemnantError(
            f"expected enough free memory, but it ran out ({type(error).__name__}: {error}). Stop other "
            "programs, or use a smaller net, batch, buffer_size or per_class. An interrupted run resumes "
            "from its last checkpoint."
        ) from error


def printable(text: str) -> str:
    r"""Return a text without characters that control a terminal, such as those in a recipe of someone else.

    >>> print(printable("two\nlines, \x1b[2J"))
    two
    lines, \x1b[2J
    """
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


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
