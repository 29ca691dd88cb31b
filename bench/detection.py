"""Measure how well each suspicion score finds noisy labels, with cleanlab for comparison.

Every cell is a dataset, a noise and a seed. A method learns the stream once; all scores are computed from
this run. cleanlab gets out-of-sample probabilities of five networks, each trained jointly, without tasks, on
four fifths of the samples for as many epochs; its own package computes the scores in its own environment.

    python bench/detection.py digits fashion --seeds 0 1 2 --out detection
    python -m venv /tmp/cleanlab && /tmp/cleanlab/bin/pip install cleanlab
    python bench/detection.py digits --cleanlab /tmp/cleanlab/bin/python --out detection

It writes OUT.json, one line per cell and score, which is read and completed when the command is repeated, and
OUT.md, the means over seeds.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from remnant.config import Config
from remnant.config.recipe import to_config
from remnant.engine.threads import compute_threads
from remnant.experiment.build import build_learner, build_stream
from remnant.experiment.evaluate import detection, known_scores
from remnant.stream import Stream
from remnant.suspects.collected import Collected
from remnant.suspects.scores import SCORES
from remnant.suspects.table import scored

CELLS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "fashion": ({"per_class": 300, "net": "small:12"}, ["symmetric:0.4", "block:0.4"]),
    "digits": ({}, ["symmetric:0.4", "block:0.4", "asymmetric:0.4"]),
    "cifar10-small": ({}, ["symmetric:0.4", "human:worse"]),
    "cifar10-features": ({}, ["symmetric:0.4", "asymmetric:0.4", "human:worse"]),
}
FOLDS = 5
METRICS = ("auroc", "average_precision", "precision_at_errors")
CLEANLAB = """
import sys, numpy as np
from cleanlab.rank import get_label_quality_scores
given = np.load(sys.argv[1])
np.save(sys.argv[2], get_label_quality_scores(given["y"], given["p"], method="self_confidence"))
"""


def own_scores(config: Config, stream: Stream) -> Iterator[dict[str, Any]]:
    """Learn the stream, and yield the detection of every score with the seconds it needs in addition."""
    assert stream.truth is not None
    start, learner, collected = time.perf_counter(), build_learner(config, stream), Collected()
    for task in stream.tasks:
        for _ in learner.learn(task):
            pass
        collected.add(task.number, learner.statistics(task))
    training = time.perf_counter() - start
    evidence = collected.evidence(stream.tasks, learner.predict)
    prediction = time.perf_counter() - start - training
    for name, score in known_scores(evidence):
        begin = time.perf_counter()
        found = scored(evidence, score)
        seconds = time.perf_counter() - begin + (prediction if name in ("end-margin", "margins") else 0.0)
        is_noisy = stream.truth[found.id] != found.y
        yield {"score": name, **detection(found.score, is_noisy), "seconds": seconds, "training": training}


def cleanlab(config: Config, stream: Stream, python: str) -> dict[str, Any]:
    """Return the detection of cleanlab, from cross-validation without tasks."""
    assert stream.truth is not None
    joint, start = stream.joint().tasks[0], time.perf_counter()
    fold = torch.randperm(len(joint), generator=torch.Generator().manual_seed(config.seed)) % FOLDS
    probabilities = torch.zeros(len(joint), len(stream.spec.classes))
    for number in range(FOLDS):
        kept, held_out = torch.nonzero(fold != number).flatten(), torch.nonzero(fold == number).flatten()
        task = replace(joint, id=joint.id[kept], y=joint.y[kept])
        learner = build_learner(to_config(None, config.values() | {"method": "joint"}), stream)
        for _ in learner.learn(task):
            pass
        probabilities[held_out] = learner.predict(joint.take(held_out).x).softmax(1).cpu()
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder) / "given.npz", Path(folder) / "result.npy"
        np.savez(given, y=joint.y.numpy(), p=probabilities.numpy())
        subprocess.run([python, "-c", CLEANLAB, str(given), str(result)], check=True)
        quality = torch.from_numpy(np.load(result))
    seconds = time.perf_counter() - start
    found = detection(quality, stream.truth[joint.id] != joint.y)
    return {"score": "cleanlab", **found, "seconds": seconds, "training": None}


def measure(
    recipe: str, noise: str, seed: int, args: argparse.Namespace, done: set[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a cell that are not done yet."""
    settings = CELLS[recipe][0] | {"method": args.method, "noise": noise, "seed": seed}
    config = to_config(recipe, settings | ({"epochs": args.epochs} if args.epochs else {}))
    with compute_threads(config.threads):
        stream = build_stream(config, args.data_dir)
        cell = {"recipe": recipe, "method": args.method, "noise": noise, "seed": seed}
        if not done & set(SCORES):
            yield from ({**cell, **row} for row in own_scores(config, stream))
        if args.cleanlab and "cleanlab" not in done:
            yield cell | cleanlab(config, stream, args.cleanlab)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the means over seeds in Markdown."""
    lines = ["| data | noise | score | seeds | AUROC | average precision | precision at errors | seconds |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["recipe"], row["noise"], row["score"]), []).append(row)
    for (recipe, noise, score), found in groups.items():
        means = [f"{fmean(row[name] for row in found):.3f}" for name in METRICS]
        seconds = f"{fmean(row['seconds'] for row in found):.1f}"
        lines.append(f"| {' | '.join([recipe, noise, score, str(len(found)), *means, seconds])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all cells, and write both files after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipes", nargs="+", choices=CELLS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--noise", nargs="+", default=[], help="instead of those of the recipe")
    parser.add_argument("--method", default="aer-abs")
    parser.add_argument("--epochs", type=int, default=0, help="instead of those of the recipe")
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--cleanlab", metavar="PYTHON", help="interpreter of an environment with cleanlab")
    parser.add_argument("--out", type=Path, default=Path("detection"))
    args = parser.parse_args()
    log = args.out.with_suffix(".json")
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    for recipe in args.recipes:
        for noise in args.noise or CELLS[recipe][1]:
            for seed in args.seeds:
                cell = {"recipe": recipe, "method": args.method, "noise": noise, "seed": seed}
                done = {row["score"] for row in rows if cell.items() <= row.items()}
                rows += measure(recipe, noise, seed, args, done)
                log.write_text("".join(json.dumps(row) + "\n" for row in rows))
                args.out.with_suffix(".md").write_text(table(rows))
                print(recipe, noise, seed, flush=True)


if __name__ == "__main__":
    main()
