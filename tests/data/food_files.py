"""Small pictures in the layout of the published Food-101N and Food-101."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from remnant.data.food101n import CLASSES

# One or two classes of each of five tasks of 20, 20, 20, 20 and 21.
DISHES = ("apple_pie", "baklava", "crab_cakes", "gnocchi", "pho", "steak", "waffles")


def picture(key: str, mode: str = "RGB", side: int = 16) -> Image.Image:
    """A smooth picture that only this key has."""
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    rough = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    return rough.resize((side, side + 5), Image.Resampling.BICUBIC).convert(mode)


def photo(home: Path, key: str) -> Path:
    """The file of a photo."""
    return home / "images" / key


def write_photos(home: Path, keys: Sequence[str]) -> None:
    for key in keys:
        path = photo(home, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(key).save(path, "JPEG")


def write_list(home: Path, name: str, lines: Sequence[str]) -> None:
    (home / "meta").mkdir(parents=True, exist_ok=True)
    (home / "meta" / name).write_text("".join(f"{line}\n" for line in lines))


def write_part(home: Path, part: str, verdicts: dict[str, int]) -> None:
    """Photos and their list; `verdicts` says of each key whether its label is right."""
    rows = [f"{key}\t{verdict}" for key, verdict in verdicts.items()]
    write_list(home, f"verified_{part}.tsv", ["class_name/key\tverification_label", *rows])
    write_photos(home, list(verdicts))


def write_food(home: Path, each: int = 3, wrong: int = 1) -> dict[str, int]:
    """`each` photos of some dishes to learn from and to test on; the last `wrong` show another one."""
    write_list(home, "classes.txt", ["class_name", *CLASSES])
    verdicts = {
        f"{dish}/{dish[0]}{i}.jpg": int(i < each - wrong) for dish in DISHES for i in range(each)
    }
    write_part(home, "train", verdicts)
    write_part(home, "val", {key.replace("/", "/v"): right for key, right in verdicts.items()})
    write_list(home, "imagelist.tsv", ["class_name/key", *verdicts])
    return verdicts


def write_food101(home: Path) -> None:
    """The clean test photos."""
    keys = [f"{dish}/10{i}" for dish in DISHES for i in range(2)]
    write_list(home, "test.txt", keys)
    write_photos(home, [f"{key}.jpg" for key in keys])
