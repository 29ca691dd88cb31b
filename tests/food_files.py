"""Small images in the layout of the published Food-101N and Food-101."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from remnant.data.food101n import CLASSES

# One or two classes of each of five tasks of 20, 20, 20, 20 and 21.
DISHES = ("apple_pie", "baklava", "crab_cakes", "gnocchi", "pho", "steak", "waffles")


def image(key: str, mode: str = "RGB", side: int = 16) -> Image.Image:
    """Return a smooth image that is unique to this key."""
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    return coarse.resize((side, side + 5), Image.Resampling.BICUBIC).convert(mode)


def photo(home: Path, key: str) -> Path:
    """Return the file of a photo."""
    return home / "images" / key


def write_photos(home: Path, keys: Sequence[str]) -> None:
    for key in keys:
        path = photo(home, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        image(key).save(path, "JPEG")


def write_list(home: Path, name: str, lines: Sequence[str]) -> None:
    (home / "meta").mkdir(parents=True, exist_ok=True)
    (home / "meta" / name).write_text("".join(f"{line}\n" for line in lines))


def write_part(home: Path, part: str, is_clean: dict[str, int]) -> None:
    """Write photos and their list; `is_clean` is whether the label of each key is correct (1 or 0)."""
    lines = [f"{key}\t{clean}" for key, clean in is_clean.items()]
    write_list(home, f"verified_{part}.tsv", ["class_name/key\tverification_label", *lines])
    write_photos(home, list(is_clean))


def write_food(home: Path, per_class: int = 3, noisy: int = 1) -> dict[str, int]:
    """Write training and validation photos of some dishes, `noisy` of each class mislabelled."""
    write_list(home, "classes.txt", ["class_name", *CLASSES])
    is_clean = {
        f"{dish}/{dish[0]}{i}.jpg": int(i < per_class - noisy) for dish in DISHES for i in range(per_class)
    }
    write_part(home, "train", is_clean)
    write_part(home, "val", {key.replace("/", "/v"): clean for key, clean in is_clean.items()})
    write_list(home, "imagelist.tsv", ["class_name/key", *is_clean])
    return is_clean


def write_food101(home: Path) -> None:
    """Write the clean test photos of Food-101."""
    keys = [f"{dish}/10{i}" for dish in DISHES for i in range(2)]
    write_list(home, "test.txt", keys)
    write_photos(home, [f"{key}.jpg" for key in keys])
