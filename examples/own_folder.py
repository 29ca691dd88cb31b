"""Train on a folder of your own photos, some of them with wrong labels, in a folder for each class.

python examples/own_folder.py photos                      # folders photos/cat, photos/dog, ...
python examples/own_folder.py                             # makes a small folder first
remnant run folder:photos tasks=1 --image-size 64         # the same from the command line
"""

import json
import sys
from pathlib import Path

import numpy as np
import remnant
from PIL import Image


def make_photos(home: Path) -> None:
    """Write 200 images of stripes in four directions; the folder of every fifth one is wrong."""
    rng, (row, column) = np.random.default_rng(0), np.mgrid[:24, :24]
    names = ("horizontal", "vertical", "rising", "falling")
    for i in range(200):
        phase = (row, column, row + column, row - column)[i % 4] + rng.integers(8)
        pixels = (200 * (phase % 8 < 4) + rng.integers(0, 56, (24, 24))).astype(np.uint8)
        label = names[(i + 1) % 4] if i % 5 == 0 else names[i % 4]
        (home / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(home / label / f"{i:03d}.png")


if __name__ == "__main__":
    photos = Path(sys.argv[1] if len(sys.argv) > 1 else "stripes")
    if not photos.exists():
        make_photos(photos)
    folder = remnant.run(f"folder:{photos}", epochs=6, **{"data.image_size": 24, "net": "resnet18:4"})
    result = json.loads((folder / "result.json").read_text())
    print(f"{result['faa']:.1f} % on the {result['tested_on']}; run folder: {folder}")
