"""Measure a replay step of Remnant beside those of CapyMOA and Avalanche.

Each library is installed from PyPI in a virtual environment of its own, below --folder; the reason is printed
if one cannot be installed. All train the same ResNet18 with the same batch size, a full buffer of the same
size and the same number of threads, on the same images. The libraries take turns, a few batches at a time,
and only one computes at a time.

    python bench/peers.py --folder /tmp/peers
    python bench/peers.py --folder /tmp/peers --width 4 --rounds 2 --batches 3
"""

import argparse
import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BATCH, SAMPLES = 32, 2000
PEERS = {
    "capymoa": ["capymoa[torch]"],
    "avalanche": ["avalanche-lib"],
}
ROOT = Path(__file__).resolve().parents[1]


def install(name: str, folder: Path) -> str:
    """Return the Python of the environment of a library, which is created if it does not exist."""
    home = folder / name
    python = home / "bin" / "python"
    if not (home / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        import torch

        pinned = [f"torch=={torch.__version__.partition('+')[0]}", *PEERS[name]]
        command = [python, "-m", "pip", "install", "--quiet", *pinned, "--editable", str(ROOT)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(_last_line(done.stderr))
        (home / "installed").touch()
    return str(python)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def network(width: int) -> Any:  # noqa: ANN401
    from remnant.data import DATA
    from remnant.nets.registry import CifarResNet, build

    return build(CifarResNet((2, 2, 2, 2), width), DATA["cifar10"].spec, seed=0)


def images() -> tuple[Any, Any]:
    import torch

    rng = torch.Generator().manual_seed(0)
    return torch.randint(256, (SAMPLES, 3, 32, 32), generator=rng).byte(), torch.arange(SAMPLES) % 10


def ours(args: argparse.Namespace) -> Iterator[None]:
    """Train with `er` of Remnant, with augmentation."""
    import numpy as np

    from remnant.config import resolve
    from remnant.data import DATA, arrays
    from remnant.experiment.build import build_learner
    from remnant.methods.protocol import StepDone
    from remnant.methods.timing import fill
    from remnant.stream import make_stream

    x, y = (part.numpy() for part in images())
    data = arrays(DATA["cifar10"].spec, x, y, x[:10], y[:10])
    stream = make_stream(data, data.y, range(10), [10], 0.0, np.random.default_rng(0))
    settings = {
        "data": "cifar10",
        "tasks": 1,
        "method": "er",
        "net": f"resnet18:{args.width}",
        "epochs": 10_000,
    }
    config = resolve(settings | {"buffer_size": args.buffer, "batch": BATCH, "lr": 0.03})
    learner: Any = build_learner(config, stream)
    fill(learner.buffer, stream.tasks[0], 10)
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone):
            yield


def capymoa(args: argparse.Namespace) -> Iterator[None]:
    """Train with `ExperienceReplay` of CapyMOA, without augmentation."""
    import torch
    from capymoa.classifier import Finetune
    from capymoa.ocl.strategy import ExperienceReplay
    from capymoa.stream import Schema

    x, y = images()
    schema = Schema.from_custom(
        features=[*(f"f{i}" for i in range(3 * 32 * 32)), "y"],
        target="y",
        categories={"y": [str(c) for c in range(10)]},
    )
    net = torch.nn.Sequential(torch.nn.Unflatten(1, (3, 32, 32)), network(args.width))
    learner = ExperienceReplay(
        Finetune(schema, lambda _: net, optimizer=lambda p: torch.optim.SGD(p, lr=0.03), device="cpu"),
        buffer_size=args.buffer,
    )
    flat = x.flatten(1).float() / 255
    while True:
        for index in torch.randperm(SAMPLES).split(BATCH):
            if len(index) == BATCH:
                learner.batch_train(flat[index], y[index])
                yield


def avalanche(args: argparse.Namespace) -> Iterator[None]:
    """Train with `ReplayPlugin` of Avalanche, without augmentation."""
    import torch
    from avalanche.benchmarks.scenarios.dataset_scenario import benchmark_from_datasets
    from avalanche.benchmarks.utils import as_classification_dataset
    from avalanche.training.plugins import EvaluationPlugin, SupervisedPlugin
    from avalanche.training.supervised import Replay

    x, y = images()
    data = torch.utils.data.TensorDataset(x.float() / 255, y)
    data.targets = y.tolist()  # type: ignore[attr-defined]
    stream = benchmark_from_datasets(train=[as_classification_dataset(data)] * 2).train_stream

    go, done = threading.Semaphore(0), threading.Semaphore(0)

    class Turns(SupervisedPlugin):  # type: ignore[misc]
        """Waits for its turn before each batch of the second experience, when the buffer is full."""

        def before_training_iteration(self, strategy: Any, **_: Any) -> None:  # noqa: ANN401
            if strategy.clock.train_exp_counter:
                go.acquire()

        def after_training_iteration(self, strategy: Any, **_: Any) -> None:  # noqa: ANN401
            if strategy.clock.train_exp_counter:
                done.release()

    net = network(args.width)
    strategy = Replay(
        model=net, criterion=torch.nn.CrossEntropyLoss(),
        optimizer=torch.optim.SGD(net.parameters(), lr=0.03),
        mem_size=args.buffer, train_mb_size=BATCH, train_epochs=1, plugins=[Turns()],
        evaluator=EvaluationPlugin(),
    )  # fmt: skip

    def train() -> None:
        torch.set_num_threads(args.threads)
        strategy.train(stream[0])
        strategy.train_epochs = 10_000
        strategy.train(stream[1])

    threading.Thread(target=train, daemon=True).start()
    while True:
        go.release()
        done.acquire()
        yield


@functools.cache  # the operators exist as long as the returned object
def declare_operators() -> Any:  # noqa: ANN401
    """Declare two operators, so that torchvision can be imported, as both libraries do.

    The build of torchvision on PyPI is for CUDA. Beside a CPU build of torch it has no operators, and its
    import fails where it describes these two. No step uses them.
    """
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


LIBRARIES: dict[str, Callable[[argparse.Namespace], Iterator[None]]] = {
    "remnant": ours,
    "capymoa": capymoa,
    "avalanche": avalanche,
}


def serve(name: str, args: argparse.Namespace) -> None:
    """Take a few steps for each line of input, and answer with the seconds per step."""
    import torch

    torch.set_num_threads(args.threads)
    if name in PEERS:
        declare_operators()
    steps = LIBRARIES[name](args)
    next(steps)
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(args.batches):
            next(steps)
        print((time.perf_counter() - start) / args.batches, flush=True)


def start(name: str, args: argparse.Namespace) -> subprocess.Popen[str]:
    """Start the process of a library, and wait until it is ready; raise RuntimeError if it fails."""
    python = sys.executable if name == "remnant" else install(name, args.folder)
    options = [f"--{key}={getattr(args, key)}" for key in ("width", "buffer", "threads", "batches")]
    command = [python, __file__, "--serve", name, *options, "--folder", str(args.folder)]
    log = (args.folder / f"{name}.log").open("w")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line == "ready\n":
            return process
    process.wait()
    raise RuntimeError(_last_line((args.folder / f"{name}.log").read_text()))


def ask(process: subprocess.Popen[str]) -> float:
    """Return the seconds per step of a few steps."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/peers"))
    parser.add_argument("--libraries", nargs="+", default=list(LIBRARIES))
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--buffer", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", type=int, default=10, help="steps of each library in a round")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="path without suffix; writes .md and .json")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args)
        return
    from measure import ratio, report

    args.folder.mkdir(parents=True, exist_ok=True)
    processes = {}
    for name in args.libraries:
        try:
            processes[name] = start(name, args)
        except (RuntimeError, subprocess.SubprocessError, OSError) as error:
            print(f"{name} cannot be measured: {error}", flush=True)
    times: dict[str, list[float]] = {name: [] for name in processes}
    for _ in range(args.rounds + 1):
        for name, process in processes.items():
            times[name].append(ask(process))
    for process in processes.values():
        process.kill()
    rows = [
        {
            "library": name,
            "images per second": f"{2 * BATCH / sorted(found[1:])[len(found) // 2 - 1]:,.0f}",
            "time x remnant": ratio(found[1:], times["remnant"][1:]),
        }
        for name, found in times.items()
    ]
    title = f"A replay step: ResNet18 of width {args.width}, batch 32 + 32, buffer {args.buffer}"
    report(title, args.threads, rows, args.out)


if __name__ == "__main__":
    main()
