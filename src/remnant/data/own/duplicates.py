"""Images that occur several times: the same content in different files."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from remnant.data.images import Images


def content_notes(images: Images, labels: Mapping[str, str]) -> list[str]:
    """Return notes on files with the same content, in particular under different labels."""
    groups = same_content(images)
    different = [group for group in groups if len({labels[file] for file in group}) > 1]
    notes = []
    if different:
        first, second = different[0][:2]
        notes.append(
            f"images with the same content under different labels: {len(different):,}, such as {first} and "
            f"{second}"
        )
    if same := len(groups) - len(different):
        notes.append(f"images that occur several times with the same label: {same:,}")
    return notes


def same_content(images: Images) -> list[list[str]]:
    """Return the groups of files that have the same content; only files of the same size are read."""
    sizes: dict[int, list[tuple[str, Path]]] = defaultdict(list)
    for i, name in enumerate(images.files):
        file = images.open(i)
        if isinstance(file, Path) and os.path.isfile(file):
            sizes[file.stat().st_size].append((name, file))
    contents: dict[bytes, list[str]] = defaultdict(list)
    for files in sizes.values():
        for name, file in files if len(files) > 1 else []:
            contents[hashlib.blake2b(file.read_bytes()).digest()].append(name)
    return [group for group in contents.values() if len(group) > 1]
