"""Entries of the dataset registry: built-in datasets, and those of other packages or files."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from remnant.data.dataset import Dataset, Spec
from remnant.data.files import DataFiles, FileCheck, root
from remnant.errors import RemnantError
from remnant.extensions import is_in_file


@dataclass(frozen=True)
class Entry:
    """A dataset in the registry. Settings are checked against the spec before any sample is loaded."""

    spec: Spec
    about: str  # one-line description
    loader: Callable[[Path | None], Dataset]  # data folder -> dataset; None: the cache (built-in only)
    files: DataFiles | None = None  # None if there is nothing to download automatically
    manual_download: str = ""  # instructions for a dataset that cannot be downloaded automatically
    checker: Callable[[Path | None], list[FileCheck]] | None = None  # checks manually downloaded files


def from_outside(name: str, found: object, origin: str) -> Entry:
    """Return the entry for an object of another package (an Entry) or of a file (an Entry or a Dataset)."""
    if isinstance(found, Dataset) and is_in_file(name):
        return Entry(spec=found.spec, about=f"dataset of {name}", loader=lambda _: found)
    spec = getattr(found, "spec", None)
    is_named = isinstance(spec, Spec) and (spec.name == name or is_in_file(name))
    if not isinstance(found, Entry) or not is_named:
        what = spec.name if isinstance(spec, Spec) else type(found).__name__
        expected = "a remnant.Entry or a remnant.Dataset" if is_in_file(name) else (
            f"a remnant.Entry whose spec is named {name!r}"
        )  # fmt: skip
        raise RemnantError(f"{origin}: expected {expected}, found {what!r}. Fix or remove this dataset.")
    return replace(found, loader=_checked_loader(found, origin))


def _checked_loader(entry: Entry, origin: str) -> Callable[[Path | None], Dataset]:
    """Return the loader of an extension, with failures and invalid results raised as RemnantError."""

    def load(folder: Path | None) -> Dataset:
        try:
            data = entry.loader(root(folder))
        except RemnantError:
            raise
        except (Exception, SystemExit) as error:
            raise RemnantError(
                f"{origin}: expected a dataset, but its loader failed with {type(error).__name__}: "
                f"{error}. Fix the loader, or the files it reads."
            ) from error
        if not isinstance(data, Dataset) or data.spec != entry.spec:
            what = f"{data.spec}" if isinstance(data, Dataset) else type(data).__name__
            raise RemnantError(
                f"{origin}: expected its loader to return the result of remnant.arrays() for its "
                f"entry's spec, {entry.spec}, found {what}. Fix the loader."
            )
        return data

    return load
