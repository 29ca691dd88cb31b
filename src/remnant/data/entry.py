"""A data set that can be asked for by name: those of other packages are found by their entry points."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from remnant.data.files import FileCheck, Published
from remnant.data.source import Dataset, Spec
from remnant.errors import RemnantError

GROUP = "remnant.data"


@dataclass(frozen=True)
class Entry:
    """A data set by name. Settings are checked against the spec before any row is loaded."""

    spec: Spec
    about: str  # one line
    loader: Callable[[Path | None], Dataset]  # takes the data folder, None for the cache
    files: Published | None = None  # None if it comes with an installed package, or by hand
    by_hand: str = ""  # how to get what cannot be downloaded
    checker: Callable[[Path | None], list[FileCheck]] | None = None  # looks at what was got by hand


def plugins() -> dict[str, EntryPoint]:
    """Return the data sets of installed packages, by name, not yet imported."""
    return {point.name: point for point in entry_points(group=GROUP)}


def plugged(name: str) -> Entry:
    """Import a data set of another package."""
    point = plugins()[name]
    origin = f"{name} ({point.value}, of the package {point.dist.name if point.dist else 'unknown'})"
    try:
        found = point.load()
    except Exception as error:
        raise RemnantError(
            f"{origin}: expected a data set, but importing it failed with {type(error).__name__}: "
            f"{error}. Mend that package, or uninstall it."
        ) from error
    if not isinstance(found, Entry) or found.spec.name != name:
        what = found.spec.name if isinstance(found, Entry) else type(found).__name__
        raise RemnantError(
            f"{origin}: expected a remnant.Entry whose spec is named {name!r}, found {what!r}. "
            "Mend that package, or uninstall it."
        )

    def load(folder: Path | None) -> Dataset:
        try:
            return found.loader(folder)
        except RemnantError:
            raise
        except Exception as error:
            raise RemnantError(
                f"{origin}: expected arrays, but its loader failed with {type(error).__name__}: "
                f"{error}. Mend that package, or what it reads."
            ) from error

    return replace(found, loader=load)
