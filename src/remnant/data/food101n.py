"""Food-101N (Lee and others, 2018): photos of 101 dishes from the web, some of which show another one.

People looked at a part of them and said of each label whether it is right; nobody said what a photo
with a wrong label shows. That part is what is learned from and tested on here.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remnant.augment import View
from remnant.data.files import FileCheck, root
from remnant.data.pictures import Listed, Pictures, pictures, unreadable
from remnant.data.source import UNKNOWN, Dataset, Labels, Spec
from remnant.errors import RemnantError, nearest

SIDE = 224
RELEASE, FOOD101 = "Food-101N_release", "food-101"  # as in the published archives
BY_HAND = (
    "get it at https://kuanghuei.github.io/Food-101N/, then put its folder "
    f"{RELEASE} (images and meta) into the data folder"
)
BY_HAND_CLEAN = (
    f"{BY_HAND}, and the folder {FOOD101} (images and meta) from "
    "https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/ beside it"
)
HEAD = ("class_name/key", "verification_label")
CLASSES = (
    *("apple_pie", "baby_back_ribs", "baklava", "beef_carpaccio", "beef_tartare", "beet_salad"),
    *("beignets", "bibimbap", "bread_pudding", "breakfast_burrito", "bruschetta", "caesar_salad"),
    *("cannoli", "caprese_salad", "carrot_cake", "ceviche", "cheesecake", "cheese_plate"),
    *("chicken_curry", "chicken_quesadilla", "chicken_wings", "chocolate_cake", "chocolate_mousse"),
    *("churros", "clam_chowder", "club_sandwich", "crab_cakes", "creme_brulee", "croque_madame"),
    *("cup_cakes", "deviled_eggs", "donuts", "dumplings", "edamame", "eggs_benedict", "escargots"),
    *("falafel", "filet_mignon", "fish_and_chips", "foie_gras", "french_fries", "french_onion_soup"),
    *("french_toast", "fried_calamari", "fried_rice", "frozen_yogurt", "garlic_bread", "gnocchi"),
    *("greek_salad", "grilled_cheese_sandwich", "grilled_salmon", "guacamole", "gyoza", "hamburger"),
    *("hot_and_sour_soup", "hot_dog", "huevos_rancheros", "hummus", "ice_cream", "lasagna"),
    *("lobster_bisque", "lobster_roll_sandwich", "macaroni_and_cheese", "macarons", "miso_soup"),
    *("mussels", "nachos", "omelette", "onion_rings", "oysters", "pad_thai", "paella", "pancakes"),
    *("panna_cotta", "peking_duck", "pho", "pizza", "pork_chop", "poutine", "prime_rib"),
    *("pulled_pork_sandwich", "ramen", "ravioli", "red_velvet_cake", "risotto", "samosa", "sashimi"),
    *("scallops", "seaweed_salad", "shrimp_and_grits", "spaghetti_bolognese", "spaghetti_carbonara"),
    *("spring_rolls", "steak", "strawberry_shortcake", "sushi", "tacos", "takoyaki", "tiramisu"),
    *("tuna_tartare", "waffles"),
)
FOOD101N = Spec(
    name="food101n",
    shape=(3, SIDE, SIDE),
    classes=CLASSES,
    view=View(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), pad=SIDE // 8),  # as 4 of CIFAR's 32 pixels
    labels_are_given=True,
)
FOOD101N_VAL = replace(FOOD101N, name="food101n-val")
FOOD101N_CLEAN = replace(FOOD101N, name="food101n-clean")


@dataclass(frozen=True, eq=False)
class Verified:
    """A list of photos, the label that each came with, and whether that is right."""

    path: Path  # of the list
    photos: Listed
    given: Labels  # (N,)
    is_right: NDArray[np.bool_]  # (N,)


def load_food101n(folder: Path | None) -> Dataset:
    """Load Food-101N; tested on those of its validation photos whose label is right."""
    return _load(FOOD101N, folder, _verified(folder, "val"))


def load_food101n_val(folder: Path | None) -> Dataset:
    """Load Food-101N; tested on all of its validation photos, by labels of which a fifth are wrong."""
    val = _verified(folder, "val")
    return _load(FOOD101N_VAL, folder, replace(val, is_right=np.ones_like(val.is_right)))


def load_food101n_clean(folder: Path | None) -> Dataset:
    """Load Food-101N; tested on the test photos of Food-101."""
    return _load(FOOD101N_CLEAN, folder, _food101(folder))


def check_food101n(folder: Path | None) -> list[FileCheck]:
    """Look at every photo of Food-101N that is learned from or tested on."""
    return _check(_verified(folder, "train"), _verified(folder, "val"))


def check_food101n_clean(folder: Path | None) -> list[FileCheck]:
    """Look at every photo of Food-101N that is learned from, and of Food-101 that is tested on."""
    return _check(_verified(folder, "train"), _food101(folder))


def release(folder: Path | None) -> Path:
    """Return the folder with images and meta of Food-101N."""
    below = root(folder)
    places = [below / RELEASE, below, below / "food-101n"]
    for place in places:
        if (place / "meta" / "verified_train.tsv").is_file():
            return place
    raise RemnantError(f"{places[0]}: expected the folders images and meta, found neither; {BY_HAND}")


def read_verified(home: Path, part: str) -> Verified:
    """Read the list of one part, train or val: the class and key of a photo, a tab, and 1 or 0."""
    _require_classes(home / "meta" / "classes.txt")
    path = home / "meta" / f"verified_{part}.tsv"
    head, *lines = _lines(path)
    if tuple(head.split("\t")) != HEAD:
        raise _unlike(path, 1, f"the head {' and '.join(HEAD)}, a tab between them", head)
    files, given, is_right = [], [], []
    for number, line in enumerate(lines, start=2):
        key, _, verdict = line.partition("\t")
        if verdict not in ("0", "1"):
            raise _unlike(path, number, "class_name/key, a tab, and 0 or 1", line)
        files.append(_file(path, number, key))
        given.append(CLASSES.index(key.partition("/")[0]))
        is_right.append(verdict == "1")
    photos = Listed(f"food101n-{part}", home, tuple(files))
    return Verified(path, photos, np.array(given, np.int64), np.array(is_right, bool))


def read_food101(home: Path) -> Verified:
    """Read the list of Food-101's test photos: class/id."""
    path = home / "meta" / "test.txt"
    lines = _lines(path)
    files = tuple(_file(path, number, line) for number, line in enumerate(lines, start=1))
    given = np.array([CLASSES.index(line.partition("/")[0]) for line in lines], np.int64)
    return Verified(path, Listed("food101-test", home, files), given, np.ones(len(given), bool))


def _verified(folder: Path | None, part: str) -> Verified:
    return read_verified(release(folder), part)


def _food101(folder: Path | None) -> Verified:
    below = root(folder)
    places = [below / FOOD101, below.parent / FOOD101]
    home = next((place for place in places if (place / "meta" / "test.txt").is_file()), None)
    if home is None:
        raise RemnantError(
            f"{places[0]}: expected the folders images and meta, found neither; {BY_HAND_CLEAN}. "
            "The data sets food101n and food101n-val do without it"
        )
    return read_food101(home)


def _load(spec: Spec, folder: Path | None, test: Verified) -> Dataset:
    """Return the verified training photos, and those test photos whose label is right."""
    train, below = _verified(folder, "train"), root(folder)
    learned, tested = pictures(below, train.photos, SIDE), pictures(below, test.photos, SIDE)
    given, rows = train.given[learned.rows], np.flatnonzero(test.is_right[tested.rows])
    return Dataset(
        spec=spec,
        train=learned.source,
        y=np.where(train.is_right[learned.rows], given, UNKNOWN),
        test=tested.source.select(rows),
        test_y=test.given[tested.rows[rows]],
        index=learned.rows,
        published=len(train.given),
        given=given,
        skipped=_with_folder(train, learned) | _with_folder(test, tested),
    )


def _with_folder(found: Verified, decoded: Pictures) -> dict[str, str]:
    home = found.photos.home.name
    return {f"{home}/{file}": why for file, why in decoded.skipped.items()}


def _check(*lists: Verified) -> list[FileCheck]:
    """Return an entry for each list, which was read to get here, and one for each damaged photo."""
    checks = []
    for found in lists:
        checks.append(FileCheck(found.path, None, exists=True))
        for file, why in unreadable(found.photos, SIDE).items():
            path = found.photos.home / file
            checks.append(FileCheck(path, why, path.exists()))
    return checks


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RemnantError(f"{path}: expected a list of photos, found: {error}; {BY_HAND}") from error
    if not lines:
        raise RemnantError(f"{path}: expected a list of photos, found an empty file; {BY_HAND}")
    return lines


def _require_classes(path: Path) -> None:
    """Refuse a list that names other classes than ours; its first line is a head."""
    named = {line.strip() for line in _lines(path)[1:] if line.strip()}
    unlike = sorted(named.symmetric_difference(CLASSES))
    if unlike:
        raise RemnantError(
            f"{path}: expected a head and the {len(CLASSES)} classes of Food-101N, found {len(named)}, "
            f"which differ in {', '.join(unlike[:3])}; use the file as published"
        )


def _file(path: Path, number: int, key: str) -> str:
    """Return the file of a photo below the folder with images and meta."""
    name, _, photo = key.partition("/")
    if name not in CLASSES:
        raise _unlike(path, number, f"one of the {len(CLASSES)} classes{nearest(name, CLASSES)}", name)
    if not photo or "/" in photo:
        raise _unlike(path, number, "class and key with one slash between them", key)
    return f"images/{name}/{photo}" if photo.endswith(".jpg") else f"images/{name}/{photo}.jpg"


def _unlike(path: Path, number: int, expected: str, found: str) -> RemnantError:
    return RemnantError(
        f"{path}, line {number}: expected {expected}, found {found[:80]!r}; use the file as published"
    )
