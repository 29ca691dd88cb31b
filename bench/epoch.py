"""What an epoch of a recipe costs beside bare forwards and backwards of its network on as many rows.

The bare epoch has its inputs ready: no loading, no augmentation, no memory. Both take turns, an epoch of
the first task each, so that a slow moment hits both.

    python bench/epoch.py nw-ucla --data-dir ~/data [--methods finetune er] [--rounds 5]
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F

from remnant import recipe
from remnant.config import Config, resolve
from remnant.experiment import make_the_replay_learner, make_the_stream, net_maker
from remnant.process import compute
from remnant.protocol import EpochDone
from remnant.stream import Stream, even_batches


def epochs_of(config: Config, stream: Stream) -> Callable[[], object]:
    """Return what learns an epoch of the first task at each call."""
    learner = make_the_replay_learner(config, stream)
    events = learner.learn(stream.tasks[0])

    def epoch() -> object:
        return next(event for event in events if isinstance(event, EpochDone))

    epoch()  # fills the memory
    return epoch


def bare_epochs_of(config: Config, stream: Stream) -> Callable[[], object]:
    """Return what passes as many rows through the network and back, with a step of SGD each batch."""
    net = net_maker(config, stream)("net")
    optimizer = torch.optim.SGD(net.parameters(), lr=config.lr)
    task = stream.tasks[0]
    passes = 2 if config.the_method().uses_memory(config.epochs) else 1
    batches = [task.take(rows) for rows in even_batches(torch.arange(len(task)), config.batch)]
    ready = [(stream.spec.view.plain(batch.x), batch.y) for batch in batches]

    def losses(x: torch.Tensor, y: torch.Tensor) -> Iterator[torch.Tensor]:
        for _ in range(passes):
            yield F.cross_entropy(net(x), y)

    def epoch() -> None:
        net.train()
        for x, y in ready:
            optimizer.zero_grad()
            torch.stack([*losses(x, y)]).sum().backward()
            optimizer.step()

    epoch()
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
    print(f"{'method':12s} {'rows':>6s} {'epoch':>9s} {'bare':>9s} {'ratio':>7s}")
    for method in args.methods:
        changes = [f"method={method}", f"epochs={args.rounds + 2}"]
        config = resolve(recipe.apply(recipe.read(args.recipe), changes))
        with compute(config.threads):
            stream = make_the_stream(config, args.data_dir)
            ours, bare = epochs_of(config, stream), bare_epochs_of(config, stream)
            pairs = [(timed(ours), timed(bare)) for _ in range(args.rounds)]
        epoch, plain = (median(times) for times in zip(*pairs, strict=True))
        ratio = median(a / b for a, b in pairs)
        print(f"{method:12s} {len(stream.tasks[0]):6d} {epoch:7.2f} s {plain:7.2f} s {ratio:7.2f}")


if __name__ == "__main__":
    main()
