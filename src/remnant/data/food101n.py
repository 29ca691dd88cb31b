"""Food-101N (Lee et al., 2018): photos of 101 dishes from the web, some of them mislabelled.

Annotators verified whether the labels of some photos are correct; the true class of a mislabelled photo is
not known. Only verified photos are used for training.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remnant.data.dataset import UNKNOWN, Dataset, Labels, Spec
from remnant.data.files import FileCheck, root
from remnant.data.images import DecodedImages, ImageList, decode_images, unreadable
from remnant.errors import MissingFiles, RemnantError, nearest
from remnant.settings import read_file
from remnant.transforms.image import ImageTransform
from remnant.transforms.resizing import stretched

SIDE = 224
RELEASE, FOOD101 = "Food-101N_release", "food-101"  # as in the published archives
MANUAL_DOWNLOAD = (
    "download it from https://kuanghuei.github.io/Food-101N/, then put its folder "
    f"{RELEASE} (images and meta) into the data folder"
)
MANUAL_DOWNLOAD_CLEAN = (
    f"{MANUAL_DOWNLOAD}, and the folder {FOOD101} (images and meta) from "
    "https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/ next to it"
)
HEADER = ("class_name/key", "verification_label")
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
    # The same fraction of the image as for CIFAR, 4 of 32 pixels.
    transform=ImageTransform(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), pad=SIDE // 8),
    has_noisy_labels=True,
    resize=stretched,
)
FOOD101N_VAL = replace(FOOD101N, name="food101n-val")
FOOD101N_CLEAN = replace(FOOD101N, name="food101n-clean")


@dataclass(frozen=True, eq=False)
class Verified:
    """A list of photos, their given labels, and whether these were verified as correct."""

    path: Path  # of the list
    photos: ImageList
    given: Labels  # (N,)
    is_clean: NDArray[np.bool_]  # (N,)


def load_food101n(folder: Path | None) -> Dataset:
    """Load Food-101N; the test split is the validation photos whose labels are clean."""
    return _load(FOOD101N, folder, _verified(folder, "val"))


def load_food101n_val(folder: Path | None) -> Dataset:
    """Load Food-101N; the test split is all validation photos, of which 19 % are mislabelled."""
    val = _verified(folder, "val")
    return _load(FOOD101N_VAL, folder, replace(val, is_clean=np.ones_like(val.is_clean)))


def load_food101n_clean(folder: Path | None) -> Dataset:
    """Load Food-101N; the test split is that of Food-101."""
    return _load(FOOD101N_CLEAN, folder, _food101(folder))


def check_food101n(folder: Path | None) -> list[FileCheck]:
    """Check every photo of the training and test splits of food101n."""
    return _check(_verified(folder, "train"), _verified(folder, "val"))


def check_food101n_clean(folder: Path | None) -> list[FileCheck]:
    """Check every photo of the training and test splits of food101n-clean."""
    return _check(_verified(folder, "train"), _food101(folder))


def release(folder: Path | None) -> Path:
    """Return the folder that contains the folders images and meta of Food-101N."""
    parent = root(folder)
    places = [parent / RELEASE, parent, parent / "food-101n"]
    for place in places:
        if (place / "meta" / "verified_train.tsv").is_file():
            return place
    raise MissingFiles(f"{places[0]}: expected the folders images and meta, found none; {MANUAL_DOWNLOAD}")


def read_verified(home: Path, part: str) -> Verified:
    """Read the list of one part, train or val: lines of class_name/key, a tab, and 1 (clean) or 0."""
    _require_classes(home / "meta" / "classes.txt")
    path = home / "meta" / f"verified_{part}.tsv"
    header, *lines = _lines(path)
    if tuple(header.split("\t")) != HEADER:
        raise _error(path, 1, f"the header {' and '.join(HEADER)}, separated by a tab", header)
    files, given, is_clean = [], [], []
    for number, line in enumerate(lines, start=2):
        key, _, verification = line.partition("\t")
        if verification not in ("0", "1"):
            raise _error(path, number, "class_name/key, a tab, and 0 or 1", line)
        files.append(_file(path, number, key))
        given.append(CLASSES.index(key.partition("/")[0]))
        is_clean.append(verification == "1")
    photos = ImageList(f"food101n-{part}", home, tuple(files))
    return Verified(path, photos, np.array(given, np.int64), np.array(is_clean, bool))


def read_food101(home: Path) -> Verified:
    """Read the list of Food-101's test photos: lines of class_name/id."""
    path = home / "meta" / "test.txt"
    lines = _lines(path)
    files = tuple(_file(path, number, line) for number, line in enumerate(lines, start=1))
    given = np.array([CLASSES.index(line.partition("/")[0]) for line in lines], np.int64)
    return Verified(path, ImageList("food101-test", home, files), given, np.ones(len(given), bool))


def _verified(folder: Path | None, part: str) -> Verified:
    return read_verified(release(folder), part)


def _food101(folder: Path | None) -> Verified:
    parent = root(folder)
    places = [parent / FOOD101, parent.parent / FOOD101]
    home = next((place for place in places if (place / "meta" / "test.txt").is_file()), None)
    if home is None:
        raise MissingFiles(
            f"{places[0]}: expected the folders images and meta, found none; {MANUAL_DOWNLOAD_CLEAN}. "
            "The datasets food101n and food101n-val do not need them"
        )
    return read_food101(home)


def _load(spec: Spec, folder: Path | None, test: Verified) -> Dataset:
    """Return a dataset of the verified training photos and the test photos with clean labels."""
    train, parent = _verified(folder, "train"), root(folder)
    train_images = decode_images(parent, train.photos, SIDE)
    test_images = decode_images(parent, test.photos, SIDE)
    given = train.given[train_images.index]
    clean = np.flatnonzero(test.is_clean[test_images.index])
    return Dataset(
        spec=spec,
        train=train_images.source,
        y=given,
        test=test_images.source.select(clean),
        test_y=test.given[test_images.index[clean]],
        index=train_images.index,
        published=len(train.given),
        truth=np.where(train.is_clean[train_images.index], given, UNKNOWN),
        skipped=_skipped(train, train_images) | _skipped(test, test_images),
    )


def _skipped(listed: Verified, decoded: DecodedImages) -> dict[str, str]:
    """Return the skipped files, prefixed with the name of the dataset's folder, and the reasons."""
    home = listed.photos.home.name
    return {f"{home}/{file}": reason for file, reason in decoded.skipped.items()}


def _check(*lists: Verified) -> list[FileCheck]:
    """Return a check for each list, which has been read without errors, and for each damaged photo."""
    checks = []
    for listed in lists:
        checks.append(FileCheck(listed.path, None, exists=True))
        for file, reason in unreadable(listed.photos, SIDE).items():
            path = listed.photos.home / file
            checks.append(FileCheck(path, reason, path.exists()))
    return checks


def _lines(path: Path) -> list[str]:
    try:
        lines = read_file(path).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RemnantError(f"{path}: expected a list of photos, found: {error}; {MANUAL_DOWNLOAD}") from error
    if not lines:
        raise RemnantError(f"{path}: expected a list of photos, found an empty file; {MANUAL_DOWNLOAD}")
    return lines


def _require_classes(path: Path) -> None:
    """Raise an error if the list of classes, after its header line, differs from CLASSES."""
    found = {line.strip() for line in _lines(path)[1:] if line.strip()}
    different = sorted(found.symmetric_difference(CLASSES))
    if different:
        raise RemnantError(
            f"{path}: expected a header and the {len(CLASSES)} classes of Food-101N, found "
            f"{len(found)}, which differ in {', '.join(different[:3])}; use the file as published"
        )


def _file(path: Path, number: int, key: str) -> str:
    """Return the path of a photo, relative to the folder that contains images and meta."""
    name, _, photo = key.partition("/")
    if name not in CLASSES:
        raise _error(path, number, f"one of the {len(CLASSES)} classes{nearest(name, CLASSES)}", name)
    if not photo or "/" in photo:
        raise _error(path, number, "a class and a key, separated by one slash", key)
    return f"images/{name}/{photo}" if photo.endswith(".jpg") else f"images/{name}/{photo}.jpg"


def _error(path: Path, number: int, expected: str, found: str) -> RemnantError:
    return RemnantError(
        f"{path}, line {number}: expected {expected}, found {found[:80]!r}; use the file as published"
    )
