"""Measure the memory of a run on photos, which must not grow with the number of photos.

Creates photos in the layout of Food-101N, runs aer-abs on them in a separate process, and samples its
anonymous memory: all but the pages of files, which the kernel can drop at any time. Decoding is measured
separately from training.

    python bench/memory.py --photos 500 5000
    python bench/memory.py --photos 500 5000 --net resnet34-224:2 --folder /tmp/photos
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from remnant.data.food101n import CLASSES

TEST_PHOTOS = 202  # two of each class


def write_part(home: Path, part: str, photos: int, rng: np.random.Generator) -> None:
    """Write smooth random photos of all classes in turn, a fifth of them mislabelled."""
    lines = []
    for i in range(photos):
        name = CLASSES[i % len(CLASSES)]
        path = home / "images" / name / f"{part}{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        rough = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        rough.resize((320, 240), Image.Resampling.BICUBIC).save(path)
        lines.append(f"{name}/{path.name}\t{int(i % 5 > 0)}\n")
    text = "class_name/key\tverification_label\n" + "".join(lines)
    (home / "meta" / f"verified_{part}.tsv").write_text(text)


def write_food(home: Path, photos: int) -> None:
    """Write a folder in the published layout."""
    (home / "meta").mkdir(parents=True)
    (home / "meta" / "classes.txt").write_text("\n".join(["class_name", *CLASSES, ""]))
    rng = np.random.default_rng(0)
    write_part(home, "train", photos, rng)
    write_part(home, "val", TEST_PHOTOS, rng)


def peak(command: list[str]) -> float:
    """Run a command and return its peak anonymous memory in MB."""
    process, most = subprocess.Popen(command, stdout=subprocess.DEVNULL), 0.0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:  # the process has just ended
            break
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        most = max(most, int(found[1]) / 1024 if found else 0.0)
        time.sleep(0.05)
    if process.wait():
        raise SystemExit(f"{' '.join(command)} failed")
    return most


def measure(folder: Path, photos: int, args: argparse.Namespace) -> tuple[float, float, float]:
    """Return the peak memory of decoding and of a run, and the seconds of the run."""
    home = folder / f"photos-{photos}"
    if not home.exists():
        write_food(home / "Food-101N_release", photos)
    remnant = [sys.executable, "-m", "remnant"]
    # Tasks of 100 and of 1,000 photos both split evenly into batches of 25, so that all steps are equal.
    settings = ["paper/food101n", f"net={args.net}", f"buffer_size={args.buffer_size}", "batch=25"]
    settings += ["epochs=2", "threads=1"]
    data_dir = ["--data-dir", str(home)]
    decoding = peak([*remnant, "data", "noise", "food101n", "--noise", "given", *data_dir])
    start = time.monotonic()
    learning = peak([*remnant, "run", *settings, *data_dir, "--out", str(home / "runs"), "--force", "-q"])
    return decoding, learning, time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--photos", nargs="+", type=int, default=[500, 5000])
    parser.add_argument("--net", default="resnet34-224:8")
    parser.add_argument("--buffer-size", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="keep the photos here; else they are removed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = {n: measure(args.folder or Path(temporary), n, args) for n in args.photos}
    size = args.buffer_size
    print(f"aer-abs, {args.net}, buffer size {size} ({size * 3 * 224**2 / 2**20:.0f} MB)")
    print("| photos | decoded, MB | decoding, anonymous MB | run, anonymous MB | run, seconds |")
    print("|---|---|---|---|---|")
    for n, (decoding, learning, seconds) in found.items():
        print(f"| {n:,} | {n * 3 * 224**2 / 2**20:.0f} | {decoding:.0f} | {learning:.0f} | {seconds:.0f} |")
    runs = [learning for _, learning, _ in found.values()]
    print(f"difference between the runs: {max(runs) - min(runs):.0f} MB")


if __name__ == "__main__":
    main()
