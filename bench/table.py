"""A table of methods over seeds, mean +- standard error, from runs that are made where they are missing.

With --grid the learning rate of each method is chosen first, by the mean accuracy on a fifth of the
noisy training rows, held out of training (labels as observed); the test set plays no part in it.

    python bench/table.py digits --methods er er-ace aer-abs --seeds 0 1 2 3 4 --grid 0.03 0.1 0.3
    python bench/table.py cifar10-small --methods er aer-abs --seeds 0 1 --data-dir ~/data --workers 2
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console

from remnant import recipe
from remnant.config import resolve
from remnant.metrics import mean, standard_error
from remnant.progress import Quiet
from remnant.runner import Options, run

VALIDATION = "validation=0.2"


def one(job: tuple[str, list[str], Path, Path | None]) -> dict[str, Any]:
    name, changes, out, data_dir = job
    config = resolve(recipe.apply(recipe.read(name), changes))
    folder = run(config, Options(out, data_dir), Quiet(Console(stderr=True)))
    print(folder, flush=True)
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def separation(result: dict[str, Any], phase: str) -> float:
    values = [e["auroc"] for e in result["separation"] if e["phase"] == phase and e["auroc"] is not None]
    return mean(values) if values else float("nan")


def cell(values: list[float]) -> str:
    spread = f" ±{standard_error(values):5.2f}" if len(values) > 1 else ""
    return f"{mean(values):6.2f}{spread}"


def row(method: str, rate: str, results: list[dict[str, Any]]) -> str:
    faa = [r["faa"] for r in results]
    ff = [r["ff"] for r in results]
    purity = [r["memory"]["purity"] for r in results if r["memory"]]
    phases = dict.fromkeys(e["phase"] for e in results[0]["separation"])
    apart = "  ".join(f"{p} {mean([separation(r, p) for r in results]):.3f}" for p in phases)
    minutes = mean([r["seconds"] for r in results]) / 60
    return (
        f"| {method} | {rate} | {cell(faa)} | {cell(ff)} | {cell(purity) if purity else '-'} "
        f"| {apart} | {minutes:.1f} | {', '.join(f'{v:.1f}' for v in faa)} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--methods", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", default=["0"])
    parser.add_argument("--grid", nargs="+", default=[])
    parser.add_argument("--set", nargs="+", default=[], dest="changes")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()

    def job(method: str, seed: str, *changes: str) -> tuple[str, list[str], Path, Path | None]:
        settings = [*args.changes, f"method={method}", f"seed={seed}", *changes]
        return args.recipe, settings, args.out, args.data_dir

    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        rates = dict.fromkeys(args.methods, "")
        tried = [(m, lr) for m in args.methods for lr in args.grid]
        trials = [job(m, seed, f"lr={lr}", VALIDATION) for m, lr in tried for seed in args.seeds]
        found = [r["faa"] for r in pool.map(one, trials)]
        for method in args.methods if args.grid else []:
            score = {}
            for i, (m, lr) in enumerate(tried):
                if m == method:
                    score[lr] = mean(found[i * len(args.seeds) : (i + 1) * len(args.seeds)])
            rates[method] = max(score, key=score.__getitem__)
            print(method, {lr: round(value, 2) for lr, value in score.items()}, flush=True)
        jobs = [
            job(m, seed, *([f"lr={rates[m]}"] if rates[m] else []))
            for m in args.methods
            for seed in args.seeds
        ]
        results = list(pool.map(one, jobs))
    print(f"\n{args.recipe} {' '.join(args.changes)}  seeds {' '.join(args.seeds)}")
    print("| method | lr | FAA | FF | purity | separation, mean over epochs | minutes | FAA per seed |")
    print("|---|---|---|---|---|---|---|---|")
    given = next((c.removeprefix("lr=") for c in args.changes if c.startswith("lr=")), "")
    for i, method in enumerate(args.methods):
        part = results[i * len(args.seeds) : (i + 1) * len(args.seeds)]
        print(row(method, rates[method] or given or "recipe's", part))


if __name__ == "__main__":
    main()
