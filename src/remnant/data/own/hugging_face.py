"""Images of a Hugging Face dataset: a name on the hub, or files on disk. Nothing of it is executed."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from remnant.data.own.listing import Listing, cache_name, class_notes
from remnant.errors import RemnantError, nearest
from remnant.transforms.resizing import Resize, upright_crop

if TYPE_CHECKING:
    from remnant.data.own.own_data import OwnData

TESTS = ("test", "validation", "valid", "val")
SAVED = ("dataset_dict.json", "dataset_info.json")  # written by save_to_disk
FORMATS = {".parquet": "parquet", ".arrow": "arrow"}


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """The encoded images of a column, in the order of the splits."""

    name: str
    home: Path
    files: tuple[str, ...]
    parts: Sequence[Any] = field(repr=False)  # datasets of {"image": {"bytes", "path"}}
    resize: Resize = upright_crop

    def stamps(self) -> dict[str, str]:
        """Return the fingerprint of the dataset for each image."""
        prints = [part._fingerprint for part in self.parts for _ in range(len(part))]
        return dict(zip(self.files, prints, strict=True))

    def open(self, i: int) -> Path | BinaryIO:
        """Return the content of an image, or the path of its file."""
        for part in self.parts:
            if i < len(part):
                image = part[i]["image"] or {}
                content, path = image.get("bytes"), image.get("path")
                return Path(path) if content is None and path else io.BytesIO(content or b"")
            i -= len(part)
        raise IndexError(i)


def read_hugging_face(own: "OwnData") -> Listing:
    """List the images of the splits train and test; without a test split, a share is to be held out."""
    splits = _splits(own.path)
    train = splits.get("train", next(iter(splits.values())))
    test = next((splits[name] for name in TESTS if name in splits and splits[name] is not train), None)
    image, label = _image_column(own.path, train), _label_column(own.path, own.label_column, train)
    left_out: dict[str, str] = {}
    parts, labels, files, counts = [], [], [], []
    for split, part in (("train", train), *([] if test is None else [("test", test)])):
        names = _names(part, label)
        kept = [i for i, name in enumerate(names) if name]
        left_out |= {f"{split} {i}": "no label" for i, name in enumerate(names) if not name}
        parts.append(_encoded(part.select(kept), image))
        labels += [names[i] for i in kept]
        files += [f"{split} {i}" for i in kept]
        counts.append(len(kept))
    return Listing(
        images=EncodedRows(cache_name("hf", Path(own.path)), Path(own.path), tuple(files), parts),
        labels=tuple(labels),
        is_test=None if test is None else np.arange(len(labels)) >= counts[0],
        is_ordered=True,
        left_out=left_out,
        notes=tuple(class_notes(labels)),
    )


def _splits(path: str) -> dict[str, Any]:
    """Return the splits of a dataset by name, without decoding images."""
    try:
        import datasets
    except ImportError as error:
        raise RemnantError(
            "hf: expected the package datasets, found none. Install it: pip install 'remnant[hf-data]'"
        ) from error
    local = os.path.realpath(os.path.expanduser(path))
    kind = FORMATS.get(Path(local).suffix)
    try:
        if any(os.path.isfile(os.path.join(local, name)) for name in SAVED):
            found = datasets.load_from_disk(local)
        elif kind and os.path.isfile(local):
            found = datasets.load_dataset(kind, data_files=local)
        else:
            found = datasets.load_dataset(local if os.path.exists(local) else path)
    except Exception as error:  # the readers of many formats, and of the network
        raise RemnantError(
            f"hf:{path}: expected a dataset on the Hugging Face hub, or a folder or file on disk, but "
            f"loading it failed with {type(error).__name__}: {' '.join(str(error).split()):.200}"
        ) from error
    return {"train": found} if isinstance(found, datasets.Dataset) else dict(found)


def _image_column(path: str, part: Any) -> str:  # noqa: ANN401
    from datasets import Image

    names = [str(name) for name, kind in part.features.items() if isinstance(kind, Image)]
    if len(names) != 1:
        found = ", ".join(f"{name} ({kind})" for name, kind in part.features.items())
        raise RemnantError(
            f"hf:{path}: expected one column of images, found {len(names)} in {found:.200}. Keep one of "
            "them: dataset.select_columns(...), or cast_column(NAME, datasets.Image())."
        )
    return names[0]


def _label_column(path: str, wanted: str, part: Any) -> str:  # noqa: ANN401
    """Return the column of the labels: the one of this name, or the only one of class labels."""
    from datasets import ClassLabel

    names = [str(name) for name, kind in part.features.items() if isinstance(kind, ClassLabel)]
    if wanted in part.features:
        return wanted
    if len(names) == 1:
        return names[0]
    raise RemnantError(
        f"hf:{path}: expected a column {wanted!r}{nearest(wanted, part.features)} Found "
        f"{', '.join(part.features)}. Choose one with data.label_column=NAME."
    )


def _names(part: Any, column: str) -> list[str]:  # noqa: ANN401
    """Return the label of each row as a text, empty if it has none."""
    kind = part.features[column]
    values = part.with_format(None).select_columns(column)[:][column]
    classes = getattr(kind, "names", None)
    if classes is None:
        return ["" if value is None else str(value).strip() for value in values]
    return ["" if value is None or value < 0 else classes[value] for value in values]


def _encoded(part: Any, column: str) -> Any:  # noqa: ANN401
    """Return a dataset with a single column `image`, whose values are bytes and paths."""
    from datasets import Image

    one = part.select_columns(column).with_format(None).cast_column(column, Image(decode=False))
    return one if column == "image" else one.rename_column(column, "image")
