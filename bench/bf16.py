"""Compare runs in bf16 with runs in float32: accuracy, purity, order of losses, and resuming.

Each method runs in both precisions with the same seeds. A table shows the paired differences of final average
accuracy and of buffer purity with their standard errors, and Spearman's correlation of the losses of all
stored samples by the same weights in both precisions. A run in bf16 that is killed and resumed must have the
results of one that is not. Runs that are finished are not repeated.

    python bench/bf16.py --out runs/bf16                                    # digits, seeds 0 to 4
    python bench/bf16.py --recipe cifar10-small --seeds 0 1 2 --data-dir ~/data --out runs/bf16
    python bench/bf16.py --recipe nw-ucla --seeds 0 1 2 --data-dir ~/data --out runs/bf16
"""

import argparse
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from measure import report
from torch import Tensor

import remnant
from remnant.config.recipe import to_config
from remnant.data import data_dir as find_data_dir
from remnant.engine.threads import compute_threads
from remnant.experiment import checkpoint, evaluate
from remnant.experiment.build import build_learner, build_stream

KILLS = 3
VARYING = (
    *("seconds", "seconds_per_phase", "images_per_second", "peak_rss_mb"),
    *("git", "environments", "files", "sha256"),
)


def spearman(a: Tensor, b: Tensor) -> float:
    """Return the correlation of the ranks of two sequences; equal values have their mean rank.

    >>> spearman(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([4.0, 5.0, 6.0]))
    1.0
    """
    ranks = []
    for values in (a, b):
        distinct, place, count = values.unique(return_inverse=True, return_counts=True)
        last = count.cumsum(0).double()
        ranks.append((last - (count - 1) / 2)[place])
        del distinct
    x, y = (rank - rank.mean() for rank in ranks)
    return float((x @ y) / (x.norm() * y.norm()))


def correlation(folder: Path, data_dir: Path | None) -> float:
    """Return the correlation of buffer losses in float32 and in bf16, by the final weights of a run."""
    state, _ = checkpoint.load(folder / "checkpoint", folder.name)
    assert state is not None
    found = []
    for precision in ("float32", "bf16"):
        config = to_config(str(folder), {"precision": precision})
        with compute_threads(config.threads):
            learner = build_learner(config, build_stream(config, find_data_dir(data_dir)))
            learner.load_state_dict(state["learner"])
            buffer = learner.buffers()["buffer"]
            found.append(evaluate.losses(learner, buffer, torch.arange(len(buffer))))
    return spearman(*found)


def paired(differences: list[float]) -> str:
    """Return mean and standard error.

    >>> paired([1.0, 3.0])
    '+2.0 ± 1.0'
    """
    error = stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
    return f"{mean(differences):+.1f} ± {error:.1f}"


def compare(method: str, args: argparse.Namespace, settings: dict[str, Any]) -> dict[str, Any]:
    """Run a method in both precisions for all seeds, and return a row."""
    found: dict[str, list[dict[str, Any]]] = {"float32": [], "bf16": []}
    correlations = []
    for seed in args.seeds:
        for precision, results in found.items():
            start = time.monotonic()
            changes = settings | {"method": method, "seed": seed, "precision": precision}
            folder = remnant.run(args.recipe, out=args.out, data_dir=args.data_dir, **changes)
            results.append(json.loads((folder / "result.json").read_text()))
            faa = results[-1]["faa"]
            print(
                f"{method} seed {seed} {precision}: {faa:.2f}, {time.monotonic() - start:.0f} s", flush=True
            )
            if precision == "float32":
                correlations.append(correlation(folder, args.data_dir))
    faa = {name: [r["faa"] for r in results] for name, results in found.items()}
    pure = {name: [r["buffer"]["purity"] for r in results] for name, results in found.items()}
    return {
        "method": method,
        **{f"accuracy {name}": f"{mean(values):.1f}" for name, values in faa.items()},
        "difference": paired([b - a for a, b in zip(faa["float32"], faa["bf16"], strict=True)]),
        **{f"purity {name}": f"{mean(values):.1f}" for name, values in pure.items()},
        "difference of purity": paired([b - a for a, b in zip(pure["float32"], pure["bf16"], strict=True)]),
        "lowest correlation": f"{min(correlations):.5f}",
        "seeds": " ".join(map(str, args.seeds)),
    }


def is_resumed_bitwise(args: argparse.Namespace, settings: dict[str, Any]) -> bool:
    """Return whether a short run that is killed several times has the results of one that is not."""
    words = [f"{k}={v}" for k, v in ({"epochs": 2} | settings | {"precision": "bf16"}).items()]
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "remnant", "run", args.recipe, *words]
        command += ["--data-dir", str(args.data_dir)] if args.data_dir else []
        whole, cut = Path(temporary, "whole"), Path(temporary, "cut")
        start = time.monotonic()
        subprocess.run([*command, "--out", str(whole), "-q"], check=True, stdout=subprocess.DEVNULL)
        taken = time.monotonic() - start
        killed = 0
        for kill in range(1, KILLS + 1):
            again = [*command, "--out", str(cut), "-q", "--save-every", "0"]
            process = subprocess.Popen(again, stdout=subprocess.DEVNULL)
            try:
                process.wait(taken * (0.4 + 0.2 * kill))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                killed += process.wait() == -signal.SIGKILL
        subprocess.run([*command, "--out", str(cut), "-q"], check=True, stdout=subprocess.DEVNULL)
        results = [json.loads(next(out.glob("*/result.json")).read_text()) for out in (whole, cut)]
        buffers = [next(out.glob("*/buffer.safetensors")).read_bytes() for out in (whole, cut)]
    plain = [{k: v for k, v in result.items() if k not in VARYING} for result in results]
    print(f"killed {killed} times")
    return plain[0] == plain[1] and buffers[0] == buffers[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--recipe", default="digits")
    parser.add_argument("--methods", nargs="+", default=["er-ace", "abs", "aer-abs"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--set", nargs="+", default=[], dest="changes", help="settings, KEY=VALUE")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    args = parser.parse_args()
    from remnant.cli.run import parse

    _, settings = parse([], args.changes)
    rows = [compare(method, args, settings) for method in args.methods]
    is_same = is_resumed_bitwise(args, settings)
    title = f"{args.recipe} {' '.join(args.changes)}: bf16 against float32; killed and resumed in bf16: "
    threads = to_config(args.recipe, {}).threads
    report(title + ("identical" if is_same else "DIFFERENT"), threads, rows, args.out / f"bf16-{args.recipe}")


if __name__ == "__main__":
    main()
