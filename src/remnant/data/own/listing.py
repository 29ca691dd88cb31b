"""The samples of own data, listed before any image is decoded."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remnant.data.images import Images

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Listing:
    """n samples with their labels, and what is left out."""

    images: Images  # n images
    labels: tuple[str, ...]  # (n,) given labels
    is_test: Mask | None = None  # (n,); None: no test split, a share of each class is to be held out
    truth: tuple[str, ...] = ()  # (n,) true labels; empty: unknown
    task: tuple[str, ...] = ()  # (n,) values of the column `task`; empty: there is none
    is_ordered: bool = False  # whether samples are in their order of arrival
    left_out: Mapping[str, str] = field(default_factory=dict)  # file or row -> reason
    notes: tuple[str, ...] = ()  # what a user should know of the samples

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes of training samples, in natural order."""
        labels = self.labels
        if self.is_test is not None:
            labels = tuple(labels[i] for i in np.flatnonzero(~self.is_test))
        return tuple(natural_order(labels))


def natural_order(names: Iterable[str]) -> list[str]:
    """Return the distinct names, sorted such that numbers in them are in numerical order.

    >>> natural_order(["cat 10", "cat 9", "Bear", "cat 9"])
    ['Bear', 'cat 9', 'cat 10']
    """

    def key(name: str) -> list[tuple[bool, int, str]]:
        parts = re.split(r"([0-9]{1,99})", name.casefold())
        return [(i % 2 == 0, int(part) if i % 2 else 0, part) for i, part in enumerate(parts) if part]

    return sorted(set(names), key=lambda name: (key(name), name))


def class_notes(labels: Sequence[str]) -> list[str]:
    """Return notes on classes that may be mistakes: names that differ in case only, single images.

    >>> class_notes(["cat", "Cat", "cat", "Cat", "dog"])
    ["classes whose names differ in case only: 'Cat' and 'cat'", 'classes with a single image: dog']
    """
    counts, notes = Counter(labels), []
    folded = Counter(name.casefold() for name in counts)
    if alike := [name for name in natural_order(counts) if folded[name.casefold()] > 1]:
        notes.append(f"classes whose names differ in case only: {' and '.join(map(repr, alike[:4]))}")
    if single := [name for name in natural_order(counts) if counts[name] == 1]:
        notes.append(f"classes with a single image: {shortened(single)}")
    return notes


def shortened(names: Sequence[str], most: int = 5) -> str:
    """Return names separated by commas, of a long list only the first ones.

    >>> shortened(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def held_out(groups: Sequence[object], share: float) -> Mask:
    """Return which samples to hold out: a share of each group, always the same, at least one of two.

    >>> held_out(["a", "a", "b"], 0.2).sum()
    np.int64(1)
    """
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    group_of = np.array([numbers[group] for group in groups], np.int64)
    rng, is_chosen = np.random.default_rng(0), np.zeros(len(group_of), bool)
    order = np.argsort(group_of, kind="stable")
    for index in np.split(order, np.cumsum(np.bincount(group_of))[:-1]):
        count = min(max(1, round(share * len(index))), len(index) - 1)
        is_chosen[rng.permutation(index)[:count]] = True
    return is_chosen


def cache_name(kind: str, home: Path) -> str:
    """Return the name of the cache of decoded images: it differs between folders of the same name."""
    digest = hashlib.sha256(str(home).encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{kind}-{re.sub(r'[^a-zA-Z0-9]+', '-', home.stem)[:30]}-{digest}"
