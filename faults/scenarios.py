"""The commands that faults are injected into, as small as possible, and what must be true afterwards."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from remnant.data.files import DataFiles, Download
from remnant.experiment.result import check_run

TINY = ["net=small:4", "epochs=2", "batch=20", "buffer_size=8"]
COST = (
    "seconds",
    "seconds_per_phase",
    "images_per_second",
    "peak_rss_mb",
    "git",
    "environments",
    "files",
    "sha256",
)
TOY = {"a": b"first file\n" * 900, "b": b"second file\n" * 900}


@dataclass(frozen=True)
class Scenario:
    """A command; `older` is what is in its folder before it starts: a path below the inputs, if any."""

    words: Callable[[Path, Path], list[str]]  # inputs, folder -> command line
    older: str = ""
    skips_runs: bool = False  # runs that are in its file of results are not read

    def prepare(self, inputs: Path, folder: Path) -> None:
        """Create the folder with its older state."""
        shutil.rmtree(folder, ignore_errors=True)
        if self.older:
            shutil.copytree(inputs / self.older, folder)
        else:
            folder.mkdir(parents=True)


SCENARIOS = {
    "run": Scenario(
        lambda inputs, folder: [
            *("run", "digits", "per_class=4", "split=[5,5]", *TINY),
            *("--save-every", "0", "--quiet", "--out", f"{folder}/runs"),
        ]
    ),
    "sweep": Scenario(
        lambda inputs, folder: [
            *("sweep", f"{inputs}/grid.toml", "--quiet", "--out", f"{folder}/runs"),
            *("--results", f"{folder}/results.json"),
        ],
        "older-sweep",
        skips_runs=True,
    ),
    "learn": Scenario(
        lambda inputs, folder: [
            *("learn", f"{inputs}/learner", f"folder:{inputs}/photos", "--data-dir", f"{folder}/data"),
            *("-o", f"{folder}/learner", "--force"),
        ],
        "older-learner",
    ),
    "audit": Scenario(
        lambda inputs, folder: [
            *("audit", f"folder:{inputs}/photos", "tasks=1", "--image-size", "8", *TINY, "--quiet"),
            *("--out", f"{folder}/runs", "--data-dir", f"{folder}/data"),
        ]
    ),
    "download": Scenario(
        lambda inputs, folder: ["data", "get", "toy", "--data-dir", f"{folder}/data"], "older-data"
    ),
}


def write_inputs(inputs: Path) -> None:
    """Write what the commands read and no fault touches: a grid, photos, a learner, damaged data files."""
    from remnant import Learner

    rng = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (inputs / "photos" / label).mkdir(parents=True)
        for number in range(8):
            pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(inputs / "photos" / label / f"{number}.png")
    settings = 'recipe = "digits"\nper_class = 4\nsplit = [[5, 5]]\nepochs = 2\nbatch = 20\nbuffer_size = 8\n'
    for name, seeds in (("grid", "0-1"), ("older", "0")):
        text = f'about = "tiny"\n{settings}net = "small:4"\nmethod = "er"\nseed = "{seeds}"\n'
        (inputs / f"{name}.toml").write_text(text)
    images = rng.integers(0, 256, (16, 3, 8, 8), dtype=np.uint8)
    learner = Learner("er", net="small:4", buffer_size=8, epochs=2, batch=8)
    learner.learn(images, ["bird", "fish"] * 8).save(inputs / "learner")
    shutil.copytree(inputs / "learner", inputs / "older-learner" / "learner")
    (inputs / "older-data" / "data" / "toy-py").mkdir(parents=True)
    (inputs / "older-data" / "data" / "toy-py" / "a").write_bytes(TOY["a"])
    (inputs / "older-data" / "data" / "toy-py" / "b").write_bytes(TOY["b"][:99])


def toy_files(url: str, archive: bytes) -> DataFiles:
    """Return the files of a dataset `toy`, which a local server publishes."""
    md5 = {name: hashlib.md5(content).hexdigest() for name, content in TOY.items()}
    download = Download(f"{url}/toy.tar.gz", hashlib.md5(archive).hexdigest(), tuple(TOY), "toy-py")
    return DataFiles("toy", md5, (download,), ("toy-py",))


def outcome(folder: Path) -> dict[str, Any]:
    """Return all results by file name, without times, what identifies a machine, locks and worker logs."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() and not path.is_symlink():
            continue
        if "checkpoint/" in name and not path.name.startswith("."):
            continue  # its name and content depend on times; the model and the buffer are compared
        if not path.name.endswith(".lock") and path.name != "workers.log":
            found[name] = _content(path)
    return found


def _content(path: Path) -> Any:
    if not path.is_file():
        return "not a file"
    if not os.access(path, os.R_OK):
        return "no permissions"
    content = path.read_bytes()
    try:
        return _without_cost(json.loads(content)) if path.suffix == ".json" else content
    except ValueError:
        return content


def _without_cost(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_cost(v) for k, v in value.items() if k not in COST}
    return [_without_cost(v) for v in value] if isinstance(value, list) else value


def harmed(folder: Path, older: Path | None, finished: Path) -> list[str]:
    """Return what a failed command damaged: older files that are neither old nor new, and files of runs."""
    problems = []
    for config in folder.glob("runs/*/config.toml"):
        states = check_run(config.parent)
        problems += [f"{name}: {problem}" for name, problem in states.items() if name and problem]
    before, after = ({} if older is None else outcome(older)), outcome(finished)
    now = outcome(folder)
    return problems + [
        name for name in before if now.get(name, "gone") not in (before[name], after.get(name))
    ]
