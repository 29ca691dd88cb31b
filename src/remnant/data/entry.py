"""A data set that can be asked for by name: those of other packages are found by their entry points."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from remnant.data.files import FileCheck, Published, root
from remnant.data.source import Dataset, Spec
from remnant.errors import RemnantError

GROUP = "remnant.data"


@dataclass(frozen=True)
class Entry:
    """A data set by name. Settings are checked against the spec before any row is loaded."""

    spec: Spec
    about: str  # one line
    loader: Callable[[Path | None], Dataset]  # takes the data folder; ours: None for the cache
    files: Published | None = None  # None if it comes with an installed package, or by hand
    by_hand: str = ""  # how to get what cannot be downloaded
    checker: Callable[[Path | None], list[FileCheck]] | None = None  # looks at what was got by hand


def plugins() -> dict[str, list[EntryPoint]]:
    """Return the data sets of installed packages, by name, not yet imported."""
    points: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        points.setdefault(point.name, []).append(point)
    return points


def package(point: EntryPoint) -> str:
    """Return the name of the package that has an entry point."""
    return point.dist.name if point.dist else "unknown"


def plugged(name: str) -> Entry:
    """Import a data set of another package."""
    point, *others = plugins()[name]
    if others:
        rivals = ", ".join(sorted(package(p) for p in (point, *others)))
        raise RemnantError(
            f"{name}: expected one package with a data set of this name, found {rivals}. Uninstall all "
            "but one."
        )
    origin = f"{name} ({point.value}, of the package {package(point)})"
    try:
        found: object = point.load()
    except (Exception, SystemExit) as error:
        raise RemnantError(
            f"{origin}: expected a data set, but importing it failed with {type(error).__name__}: "
            f"{error}. Mend that package, or uninstall it."
        ) from error
    spec = getattr(found, "spec", None)
    if not isinstance(found, Entry) or not isinstance(spec, Spec) or spec.name != name:
        what = spec.name if isinstance(spec, Spec) else type(found).__name__
        raise RemnantError(
            f"{origin}: expected a remnant.Entry whose spec is named {name!r}, found {what!r}. "
            "Mend that package, or uninstall it."
        )

    def load(folder: Path | None) -> Dataset:
        try:
            data = found.loader(root(folder))
        except RemnantError:
            raise
        except (Exception, SystemExit) as error:
            raise RemnantError(
                f"{origin}: expected arrays, but its loader failed with {type(error).__name__}: "
                f"{error}. Mend that package, or what it reads."
            ) from error
        if not isinstance(data, Dataset) or data.spec != spec:
            what = f"{data.spec}" if isinstance(data, Dataset) else type(data).__name__
            raise RemnantError(
                f"{origin}: expected its loader to return what remnant.arrays() makes of its entry's "
                f"spec, {spec}, found {what}. Mend that package."
            )
        return data

    return replace(found, loader=load)
