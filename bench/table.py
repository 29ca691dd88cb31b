"""Compare methods over seeds: a table of means and standard errors. Runs that are missing are run first.

With --grid the learning rate of each method is selected first, by the mean accuracy on a held-out fifth of
the noisy training samples with their observed labels. The test split is not used to select it.

    python bench/table.py digits --methods er er-ace aer-abs --seeds 0 1 2 3 4 --grid 0.03 0.1 0.3
    python bench/table.py cifar10-small --methods er aer-abs --seeds 0 1 --data-dir ~/data --workers 2

The last column is the difference of the accuracy to that of the last method, paired by seed, with its
standard error.
"""

import argparse
import json
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import remnant
from remnant.cli.run import parse
from remnant.config.checks import unused_settings
from remnant.config.recipe import to_config
from remnant.experiment.metrics import mean, standard_error

VALIDATION = "validation=0.2"
Result = dict[str, Any]


def run(recipe: str, settings: dict[str, Any], out: Path, data_dir: Path | None) -> Result:
    """Run an experiment, unless it is finished already, and return its results."""
    folder = remnant.run(recipe, out=out, data_dir=data_dir, **settings)
    print(folder, flush=True)
    result: Result = json.loads((folder / "result.json").read_text())
    return result


def submit(
    pool: ProcessPoolExecutor, args: argparse.Namespace, method: str, *changes: str
) -> list[Future[Result]]:
    """Start the runs of a method, one per seed; common settings that it does not use are left out."""
    unused = unused_settings(to_config(args.recipe, {"method": method}))
    common = [text for text in args.changes if text.partition("=")[0].partition(".")[0] not in unused]
    jobs = [parse([], [*common, f"method={method}", f"seed={s}", *changes]) for s in args.seeds]
    return [pool.submit(run, args.recipe, settings, args.out, args.data_dir) for _, settings in jobs]


def select_lr(pool: ProcessPoolExecutor, args: argparse.Namespace) -> dict[str, str]:
    """Return the best learning rate of each method on the validation split."""
    tried = [(method, lr) for method in args.methods for lr in args.grid]
    trials = {(m, lr): submit(pool, args, m, f"lr={lr}", VALIDATION) for m, lr in tried}
    faa = {key: mean([future.result()["faa"] for future in futures]) for key, futures in trials.items()}
    best = {}
    for method in args.methods:
        scores = {lr: faa[method, lr] for lr in args.grid}
        best[method] = max(scores, key=scores.__getitem__)
        print(method, {lr: round(value, 2) for lr, value in scores.items()}, flush=True)
    return best


def separation(result: Result, phase: str) -> float:
    values = [e["auroc"] for e in result["separation"] if e["phase"] == phase and e["auroc"] is not None]
    return mean(values) if values else float("nan")


def cell(values: list[float]) -> str:
    spread = f" ±{standard_error(values):5.2f}" if len(values) > 1 else ""
    return f"{mean(values):6.2f}{spread}"


def row(method: str, lr: str, results: list[Result], last: list[Result]) -> str:
    """Return a row of the table; the results are those of all seeds, `last` those of the last method."""
    faa = [r["faa"] for r in results]
    differences = [r["faa"] - other["faa"] for r, other in zip(results, last, strict=True)]
    ff = [r["ff"] for r in results]
    purity = [r["buffer"]["purity"] for r in results if r["buffer"] and r["buffer"]["purity"] is not None]
    phases = dict.fromkeys(e["phase"] for e in results[0]["separation"])
    separations = "  ".join(f"{p} {mean([separation(r, p) for r in results]):.3f}" for p in phases)
    minutes = mean([r["seconds"] for r in results]) / 60
    return (
        f"| {method} | {lr} | {cell(faa)} | {cell(ff)} | {cell(purity) if purity else '-'} "
        f"| {separations} | {minutes:.1f} | {', '.join(f'{v:.1f}' for v in faa)} | {cell(differences)} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--methods", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", default=["0"])
    parser.add_argument("--grid", nargs="+", default=[], help="learning rates to select from")
    parser.add_argument(
        "--set", nargs="+", default=[], dest="changes", help="settings of all runs, KEY=VALUE"
    )
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        best = select_lr(pool, args) if args.grid else {}
        futures = {m: submit(pool, args, m, *([f"lr={best[m]}"] if best else [])) for m in args.methods}
        results = {method: [f.result() for f in futures[method]] for method in args.methods}
    print(f"\n{args.recipe} {' '.join(args.changes)}  seeds {' '.join(args.seeds)}")
    print("| method | lr | FAA | FF | purity | separation, mean over epochs | minutes | FAA | difference |")
    print("|---|---|---|---|---|---|---|---|---|")
    given = next((c.removeprefix("lr=") for c in args.changes if c.startswith("lr=")), "from recipe")
    for method in args.methods:
        print(row(method, best.get(method, given), results[method], results[args.methods[-1]]))


if __name__ == "__main__":
    main()
