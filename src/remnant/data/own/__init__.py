"""A user's own images: class folders, a table of files, or a Hugging Face dataset.

They are written as `folder:DIR`, `table:FILE.csv` and `hf:NAME`, and have settings such as `image_size`.
"""

from dataclasses import replace

from remnant.data.own.folder import read_folder
from remnant.data.own.hugging_face import read_hugging_face
from remnant.data.own.own_data import OwnData as OwnData
from remnant.data.own.table import read_table
from remnant.errors import RemnantError
from remnant.extensions import is_own_data

KINDS: dict[str, OwnData] = {
    "folder": OwnData(read_folder),
    "table": OwnData(read_table),
    "hf": OwnData(read_hugging_face),
}


def parse_own_data(text: str) -> OwnData:
    """Return the own data of a text such as `folder:photos`, with the default settings."""
    if not is_own_data(text):
        raise RemnantError(f"expected folder:DIR, table:FILE.csv or hf:NAME, got {text!r}.")
    kind, _, path = text.partition(":")
    if not path.strip():
        raise RemnantError(f"{text}: expected a path or a name after the colon, got none. Write one.")
    return replace(KINDS[kind], path=path)
