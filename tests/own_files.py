"""Small images in class folders and tables."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import food_files


def write_image(path: Path, side: int = 12) -> str:
    """Write an image that is unique to the name of its folder and file; return its path as a text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    food_files.image(f"{path.parent.name}/{path.name}", side=side).save(path)
    return str(path)


def write_folder(home: Path, counts: Mapping[str, int]) -> Path:
    """Write so many images of each class."""
    for label, count in counts.items():
        (home / label).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            write_image(home / label / f"{i}.png")
    return home


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """Write a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def table_of_images(home: Path, labels: Sequence[str], **columns: Sequence[object]) -> Path:
    """Write an image for each label, and a table that lists them, with further columns."""
    files = [f"images/{i}.png" for i in range(len(labels))]
    for file in files:
        write_image(home / file)
    rows = list(zip(files, labels, *columns.values(), strict=True))
    return write_table(home / "table.csv", ["path", "label", *columns], rows)
