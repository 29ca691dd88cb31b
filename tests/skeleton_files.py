"""Small skeleton files in the format of NTU RGB+D."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Frames = list[list[NDArray[np.float64]]]  # the bodies of each frame, (25, 3) each

BODY_LINE = "72057594037931101 0 1 1 1 1 0 0.0211 -0.0323 2"


def body(rng: np.random.Generator, spread: float = 1.0) -> NDArray[np.float64]:
    return rng.normal(0, spread, (25, 3)).round(6)


def text(frames: Frames) -> str:
    lines = [str(len(frames))]
    for bodies in frames:
        lines.append(str(len(bodies)))
        for positions in bodies:
            lines += [BODY_LINE, "25"]
            lines += [
                f"{x:.6f} {y:.6f} {z:.6f} 277.4 191.8 1036.2 519.5 -0.2 0 -0.1 0.9 2" for x, y, z in positions
            ]
    return "\n".join(lines) + "\n"


def write(folder: Path, name: str, frames: Frames) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.skeleton"
    path.write_text(text(frames))
    return path


def write_ntu(root: Path, names: list[str], excluded: list[str], frames: int = 3) -> None:
    """Write a data folder with these samples, one body in each, and the list of excluded samples."""
    rng = np.random.default_rng(0)
    for name in names:
        write(root / "nturgb+d_skeletons", name, [[body(rng)] for _ in range(frames)])
    lines = "\n".join(["Samples with missing skeletons:", "----", *excluded])
    (root / "NTU_RGBD_samples_with_missing_skeletons.txt").write_text(lines + "\n")
