"""Images in class folders: `DIR/CLASS/.../IMAGE`, or the same below `DIR/train` and `DIR/test`."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from remnant.data.images import ImageList
from remnant.data.own.listing import Listing, cache_name, class_notes, shortened
from remnant.errors import RemnantError, nearest
from remnant.transforms.resizing import upright_crop

if TYPE_CHECKING:
    from remnant.data.own.own_data import OwnData

SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".gif"),
    *(".webp", ".bmp", ".tif", ".tiff"),
)
SYSTEM_FILES = ("thumbs.db", "desktop.ini")  # created by Windows; those of other systems are hidden
MAX_LEFT_OUT = 100_000  # files; more of them are not a folder of images, but a disk
TRAIN, TESTS = "train", ("test", "val", "validation")


def _folders_in(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return []


def read_folder(own: "OwnData") -> Listing:
    """List the images of class folders; the class of an image is the topmost folder that contains it."""
    home = Path(os.path.realpath(own.path))
    if not home.is_dir():
        what = "a file" if home.exists() else "nothing"
        hint = nearest(home.name, _folders_in(home.parent))
        raise RemnantError(f"{own.path}: expected a folder with a folder for each class, found {what}{hint}")
    scan = _Scan(home, own.follow_links)
    test = test_folder(home)
    parts = [""] if test is None else [TRAIN, test]
    samples: list[tuple[str, str, bool]] = []  # file, label, is in the test split
    notes = []
    for part in parts:
        for label in scan.folders(part):
            files = sorted(scan.images(_joined(part, label)))
            samples += [(file, label, part == test) for file in files]
            notes += [] if files else [f"a class folder without images: {_joined(part, label)}"]
    labels = tuple(label for _, label, _ in samples)
    if not labels or (len(set(labels)) == 1 and _has_folders(home / labels[0])):
        raise _no_classes(own.path, scan, labels)
    paths = tuple(file for file, _, _ in samples)
    return Listing(
        images=ImageList(cache_name("folder", home), home, paths, upright_crop),
        labels=labels,
        is_test=None if test is None else np.array([is_test for _, _, is_test in samples], bool),
        left_out=scan.left_out,
        notes=(*notes, *class_notes(labels), *_unused_notes(home, parts)),
    )


def test_folder(home: Path) -> str | None:
    """Return the name of the folder of test images; None unless there is one next to a folder `train`.

    Both have to contain folders: otherwise they are classes, such as trains.
    """
    names = (name for name in TESTS if _has_folders(home / TRAIN) and _has_folders(home / name))
    return next(names, None)


def _has_folders(path: Path) -> bool:
    try:
        with os.scandir(path) as entries:
            return any(entry.is_dir() and not is_hidden(entry.name) for entry in entries)
    except OSError:
        return False


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is not a part of the data: hidden, or created by the system."""
    return name.startswith(".") or name.lower() in SYSTEM_FILES


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part)


@dataclass(frozen=True)
class _Scan:
    """Finds images below a folder. Links that point outside of it are left out, unless they are asked for."""

    home: Path
    follow_links: bool
    left_out: dict[str, str] = field(default_factory=dict)  # file or folder -> reason
    linked: set[str] = field(default_factory=set)  # folders that links point to

    def folders(self, part: str) -> list[str]:
        """Return the names of the folders in a folder; images beside them are left out."""
        names = []
        for entry in self._entries(part):
            if entry.is_dir():
                names.append(entry.name)
            elif is_image(entry.name):
                self.left_out[_joined(part, entry.name)] = "not in a class folder"
        return sorted(names)

    def images(self, folder: str) -> Iterator[str]:
        """Yield the images in a folder and the folders in it."""
        unvisited = [folder]
        while unvisited:
            inside = unvisited.pop()
            for entry in self._entries(inside):
                name = f"{inside}/{entry.name}"
                if entry.is_dir():
                    unvisited.append(name)
                elif not is_image(entry.name):
                    self.left_out[name] = (
                        f"not the suffix of an image: {os.path.splitext(entry.name)[1] or 'none'}"
                    )
                    if len(self.left_out) > MAX_LEFT_OUT:
                        raise RemnantError(
                            f"{self.home}: expected a folder with a folder of images for each class, found "
                            f"more than {MAX_LEFT_OUT:,} other files, such as {name}. Name the folder of the "
                            "images."
                        )
                elif entry.is_file():
                    yield name
                else:
                    self.left_out[name] = "not a file"

    def _entries(self, folder: str) -> Iterator[os.DirEntry[str]]:
        """Yield what is in a folder, without hidden files and links that are not followed."""
        try:
            with os.scandir(self.home / folder) as entries:
                for entry in entries:
                    if is_hidden(entry.name):
                        continue
                    problem = self._link_problem(entry) if entry.is_symlink() else ""
                    if problem:
                        self.left_out[_joined(folder, entry.name)] = problem
                    else:
                        yield entry
        except OSError as error:
            self.left_out[folder] = f"cannot be read: {error.strerror}"

    def _link_problem(self, entry: os.DirEntry[str]) -> str:
        target = os.path.realpath(entry.path)
        if not os.path.exists(target):
            return "a link to nothing"
        if not self.follow_links and not target.startswith(f"{self.home}{os.sep}"):
            return "a link out of the folder; data.follow_links=true reads it"
        if entry.is_dir():
            is_above = os.path.commonpath([target, os.path.realpath(os.path.dirname(entry.path))]) == target
            if is_above or target in self.linked:
                return "a link to a folder that is read already"
            self.linked.add(target)
        return ""


def is_image(name: str) -> bool:
    """Return whether a file name has the suffix of an image."""
    return name.lower().endswith(SUFFIXES)


def _unused_notes(home: Path, parts: list[str]) -> list[str]:
    inside = sorted(path.name for path in home.iterdir() if path.is_dir() and not is_hidden(path.name))
    others = [name for name in inside if name not in parts] if len(parts) > 1 else []
    return [f"folders beside {' and '.join(parts)} are not used: {shortened(others)}"] if others else []


def _no_classes(path: str, scan: _Scan, labels: Sequence[str]) -> RemnantError:
    """Return the error for a folder without class folders, with what to do next."""
    alone = sum(reason == "not in a class folder" for reason in scan.left_out.values())
    if labels:
        label = labels[0]
        what = f"images in {label!r} only. If it contains the class folders, write folder:{path}/{label}"
    elif alone:
        what = f"{alone:,} images without one. Move them to class folders, or use a table: table:FILE.csv"
    else:
        first = next((f"; left out: {name}: {why}" for name, why in scan.left_out.items()), "")
        what = f"no images{first}."
    return RemnantError(f"{path}: expected a folder of images for each of at least two classes, found {what}")
