"""Measure what methods cost in a whole run: total time, time per epoch and task, peak memory (Table B).

Each method has a process of its own, so that its memory is measured separately. The methods take turns after
each task, so that other load affects all of them; only one computes at a time.

    python bench/cost.py cifar10-small --methods puridiver puridiver.me aer-abs --data-dir ~/data
    python bench/cost.py digits --methods puridiver aer-abs --set consolidation.epochs=63
"""

import argparse
import contextlib
import resource
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import mean
from typing import Any

from remnant.cli.run import parse
from remnant.config.checks import unused_settings
from remnant.config.recipe import to_config
from remnant.config.registries import OF_METHOD
from remnant.engine.threads import compute_threads
from remnant.experiment import evaluate
from remnant.experiment.build import build_learner, build_stream
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import StepDone

Turn = tuple[float, float, float, float]  # seconds of a task and of an epoch, accuracy, peak memory so far


def settings_for(recipe: str, method: str, changes: list[str]) -> dict[str, Any]:
    """Return the settings without those that the method does not have."""
    config = to_config(recipe, {"method": method})
    known, unused = config.table(), unused_settings(config)

    def applies(key: str) -> bool:
        kind, dot, setting = key.partition(".")
        if kind in unused:
            return False
        return not dot or kind not in OF_METHOD or setting in known.get(kind, {})

    _, settings = parse([], [f"method={method}", *changes])
    chosen = {key: value for key, value in settings.items() if applies(key)}
    to_config(recipe, chosen)  # raises an error if they cannot be used
    return chosen


def work(pipe: Connection, recipe: str, settings: dict[str, Any], data_dir: Path | None) -> None:
    """Learn a task at each request, and send what was measured."""
    config = to_config(recipe, settings)
    with compute_threads(config.threads):
        stream = build_stream(config, data_dir)
        learner = build_learner(config, stream)
        pipe.send(len(stream.tasks))
        for task in stream.tasks:
            pipe.recv()
            start = last = time.perf_counter()
            streaming, epochs = 0.0, set()
            for event in learner.learn(task):
                now = time.perf_counter()
                if isinstance(event, StepDone) and Phase.CONSOLIDATE not in event.phase:
                    streaming += now - last
                    epochs.add(event.epoch)
                last = time.perf_counter()
            total = time.perf_counter() - start
            measured = evaluate.accuracy(learner, stream.tests[: task.number + 1]).class_incremental
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            pipe.send((total, streaming / len(epochs), mean(measured), peak))


def take_turns(
    recipe: str, settings: dict[str, dict[str, Any]], data_dir: Path | None
) -> dict[str, list[Turn]]:
    """Return what each method measured in each task."""
    spawn, pipes = get_context("spawn"), {}
    turns: dict[str, list[Turn]] = {method: [] for method in settings}
    with contextlib.ExitStack() as stack:  # if a process fails, the others end as well
        for method in settings:
            ours, theirs = spawn.Pipe()
            pipes[method] = stack.enter_context(ours)
            spawn.Process(target=work, args=(theirs, recipe, settings[method], data_dir)).start()
            theirs.close()
        tasks = [pipe.recv() for pipe in pipes.values()].pop()
        for number in range(tasks):
            for method, pipe in pipes.items():
                pipe.send("learn a task")
                turns[method].append(pipe.recv())
                print(f"task {number + 1}/{tasks}  {method:14s} {turns[method][-1][0]:7.1f} s", flush=True)
    return turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--methods", nargs="+", default=["puridiver", "puridiver.me", "aer-abs"])
    parser.add_argument("--set", nargs="+", default=[], dest="changes", help="settings, KEY=VALUE")
    parser.add_argument("--data-dir", type=Path)
    args = parser.parse_args()
    settings = {method: settings_for(args.recipe, method, args.changes) for method in args.methods}
    turns = take_turns(args.recipe, settings, args.data_dir)
    print(f"\n{args.recipe} {' '.join(args.changes)}")
    print("| method | total (s) | epoch on the stream (s) | task (s) | peak memory (MB) | FAA |")
    print("|---|---|---|---|---|---|")
    for method, measured in turns.items():
        total, epoch, accuracy, peak = zip(*measured, strict=True)
        cells = f"{sum(total):.1f} | {mean(epoch):.2f} | {mean(total):.1f} | {peak[-1]:.0f}"
        print(f"| {method} | {cells} | {accuracy[-1]:.1f} |")


if __name__ == "__main__":
    main()
