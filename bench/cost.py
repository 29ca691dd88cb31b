"""What methods cost in a whole run: total, an epoch on the stream, a task, and peak memory (Table B).

One process per method, so that each has a memory of its own. They take turns, a task each, so that all
meet the same machine; only one computes at a time.

    python bench/cost.py cifar10-small --methods puridiver puridiver.me aer-abs --data-dir ~/data
    python bench/cost.py digits --methods puridiver aer-abs --set consolidation.epochs=63
"""

import argparse
import resource
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import mean

from remnant import evaluate, recipe
from remnant.config import resolve
from remnant.experiment import make_the_learner, make_the_stream
from remnant.process import compute
from remnant.protocol import STREAM, StepDone
from remnant.registry import CHOICES


def settings_for(name: str, method: str, changes: list[str]) -> list[str]:
    """Leave out the settings of choices that a method does not make."""
    known = resolve(recipe.apply(recipe.read(name), [f"method={method}"])).table()

    def applies(change: str) -> bool:
        kind, dot, setting = change.partition("=")[0].partition(".")
        return not dot or kind not in (*CHOICES, "learner") or setting in known.get(kind, {})

    return [f"method={method}", *filter(applies, changes)]


def work(pipe: Connection, name: str, changes: list[str], data_dir: Path | None) -> None:
    """Learn a task whenever asked; answer with seconds in all, of an epoch, accuracy and peak so far."""
    config = resolve(recipe.apply(recipe.read(name), changes))
    with compute(config.threads):
        stream = make_the_stream(config, data_dir)
        learner = make_the_learner(config, stream)
        pipe.send(len(stream.tasks))
        for task in stream.tasks:
            pipe.recv()
            start = last = time.perf_counter()
            streaming, epochs = 0.0, set()
            for event in learner.learn(task):
                now = time.perf_counter()
                if isinstance(event, StepDone) and event.work == STREAM:
                    streaming += now - last
                    epochs.add(event.epoch)
                last = time.perf_counter()
            total = time.perf_counter() - start
            measured = evaluate.accuracy(learner, stream.tests[: task.number + 1]).class_incremental
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            pipe.send((total, streaming / len(epochs), mean(measured), peak))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--methods", nargs="+", default=["puridiver", "puridiver.me", "aer-abs"])
    parser.add_argument("--set", nargs="+", default=[], dest="changes")
    parser.add_argument("--data-dir", type=Path)
    args = parser.parse_args()
    spawn, pipes = get_context("spawn"), {}
    for method in args.methods:
        pipes[method], theirs = spawn.Pipe()
        changes = settings_for(args.recipe, method, args.changes)
        process = spawn.Process(target=work, args=(theirs, args.recipe, changes, args.data_dir))
        process.start()
    tasks = [pipe.recv() for pipe in pipes.values()].pop()
    turns: dict[str, list[tuple[float, float, float, float]]] = {method: [] for method in pipes}
    for number in range(tasks):
        for method, pipe in pipes.items():
            pipe.send("go")
            turns[method].append(pipe.recv())
            print(f"task {number + 1}/{tasks}  {method:14s} {turns[method][-1][0]:7.1f} s", flush=True)
    print(f"\n{args.recipe} {' '.join(args.changes)}")
    print("| method | total (s) | epoch on the stream (s) | task (s) | peak memory (MB) | FAA |")
    print("|---|---|---|---|---|---|")
    for method, rows in turns.items():
        total, epoch, _, peak = zip(*rows, strict=True)
        cells = f"{sum(total):.1f} | {mean(epoch):.2f} | {mean(total):.1f} | {peak[-1]:.0f}"
        print(f"| {method} | {cells} | {rows[-1][2]:.1f} |")


if __name__ == "__main__":
    main()
