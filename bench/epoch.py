"""Compare an epoch of a recipe with the forward and backward passes of its network alone.

The baseline passes as many samples through the network, with inputs prepared in advance: no loading, no
augmentation, no buffer. Both alternate, an epoch of the first task each, so that other load affects both.

    python bench/epoch.py nw-ucla --data-dir ~/data [--methods finetune er] [--rounds 5]
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F

from remnant.config import Config
from remnant.config.recipe import to_config
from remnant.engine.threads import compute_threads
from remnant.experiment.build import build_learner, build_stream, net_builder
from remnant.methods.loop import even_batches
from remnant.methods.protocol import EpochDone
from remnant.methods.replay import Replay
from remnant.stream import Stream


def epochs_of(config: Config, stream: Stream) -> Callable[[], object]:
    """Return a function that learns an epoch of the first task."""
    events = build_learner(config, stream).learn(stream.tasks[0])

    def epoch() -> object:
        return next(event for event in events if isinstance(event, EpochDone))

    epoch()  # fills the buffer
    return epoch


def baseline_epochs_of(config: Config, stream: Stream) -> Callable[[], object]:
    """Return a function that passes as many samples through the network, with an SGD step per batch."""
    method, task = config.to_method(), stream.tasks[0]
    assert isinstance(method, Replay), "expected a replay method: others have a training loop of their own"
    net = net_builder(config, stream)("net", normed_head=method.objective.normed_head)
    optimizer = torch.optim.SGD(net.parameters(), lr=config.lr)
    passes = 2 if method.uses_buffer(config.epochs) else 1
    batches = [task.take(index) for index in even_batches(torch.arange(len(task)), config.batch)]
    inputs = [(stream.spec.transform.plain(batch.x), batch.y) for batch in batches]

    def epoch() -> None:
        net.train()
        for x, y in inputs:
            optimizer.zero_grad()
            torch.stack([F.cross_entropy(net(x), y) for _ in range(passes)]).sum().backward()
            optimizer.step()

    epoch()  # warm-up
    return epoch


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--methods", nargs="+", default=["finetune", "er"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data-dir", type=Path)
    args = parser.parse_args()
    print(f"{'method':12s} {'samples':>8s} {'epoch':>9s} {'baseline':>9s} {'ratio':>7s}")
    for method in args.methods:
        config = to_config(args.recipe, {"method": method, "epochs": args.rounds + 2})
        with compute_threads(config.threads):
            stream = build_stream(config, args.data_dir)
            passes, whole = baseline_epochs_of(config, stream), epochs_of(config, stream)
            pairs = [(timed(whole), timed(passes)) for _ in range(args.rounds)]
        epoch, baseline = (median(times) for times in zip(*pairs, strict=True))
        ratio = median(a / b for a, b in pairs)
        print(f"{method:12s} {len(stream.tasks[0]):8d} {epoch:7.2f} s {baseline:7.2f} s {ratio:7.2f}")


if __name__ == "__main__":
    main()
