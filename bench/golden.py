"""Compare the results of two checkouts bit for bit: a refactoring must not change any of them.

Every method runs on a few samples with the code of OLD and with the code of NEW. Metrics, buffers and
network weights are reduced to one digest each; of the metrics, only those that both sides have. Digests
depend on the CPU and on torch, so both sides are computed here, and none is stored.

    git worktree add /tmp/old main~10
    python bench/golden.py /tmp/old . --data-dir ~/data
    python bench/golden.py /tmp/old . --only digits/er digits/spr    # some cases
    python bench/golden.py /tmp/old . --keep /tmp/golden-old         # reuse the results of OLD
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DIGITS = ["digits", "per_class=24", "epochs=4", "buffer_size=30", "batch=16", "net=small:4"]
FIT = ["consolidation.epochs=15", "consolidation.batch=8"]
SPR = ["algorithm.expert_steps=12", "algorithm.base_steps=12", "algorithm.finetune_epochs=3"]
CIFAR = ["cifar10-small", "per_class=20", "epochs=2", "buffer_size=40", "net=resnet18:2", "batch=16"]
SKELETONS = ["nw-ucla", "per_class=8", "epochs=2", "buffer_size=20", "batch=8"]
PHOTOS = ["paper/food101n", "split=[35,35,31]", "epochs=2", "buffer_size=20", "net.width=2", "batch=8"]
REPLAYING = (
    *("finetune", "joint", "er", "er-ace", "er-ace+alpha", "aer", "abs", "aer-lass", "aer-abs"),
    *("aer-abs-noace", "der++", "der++-aer-abs"),
)
CONSOLIDATING = (
    *("er+fit", "er+coteaching", "er+dividemix", "aer-abs+fit", "aer-abs+consolidation", "gdumb"),
    *("gdumb+coteaching", "gdumb+dividemix", "puridiver", "puridiver.me"),
)
CASES: dict[str, list[str]] = {
    **{f"digits/{m}": [*DIGITS, f"method={m}"] for m in REPLAYING},
    **{f"digits/{m}": [*DIGITS, f"method={m}", *FIT] for m in CONSOLIDATING},
    "digits/spr": [*DIGITS, "method=spr", *SPR],
    "digits/cnll": [*DIGITS, "method=cnll"],
    "digits/cnll.unlimited": [*DIGITS, "method=cnll.unlimited"],
    "digits/refresh": [*DIGITS, "scoring.refresh_every=5"],
    "digits/momentum": [*DIGITS, "momentum=0.9", "weight_decay=0.001", "lr_drops=[0.5]"],
    "digits/validation": [*DIGITS, "validation=0.2", "class_order=random"],
    "digits/duplicates": [*DIGITS, "replacement.allow_duplicates=true"],
    **{f"digits/{n}": [*DIGITS, f"noise={n}"] for n in ("none", "block:0.2", "instance:0.4")},
    **{
        f"cifar10/{m}": [*CIFAR, f"method={m}"]
        for m in ("er", "aer-abs", "der++-aer-abs", "puridiver.me", "cnll")
    },
    "cifar10/spr": [*CIFAR, "method=spr", *SPR],
    "cifar10/human": [*CIFAR, "noise=human:worse"],
    "cifar10/asymmetric": [*CIFAR, "noise=asymmetric:0.4"],
    **{f"nw-ucla/{m}": [*SKELETONS, f"method={m}"] for m in ("finetune", "er-ace", "aer-abs", "cnll")},
    **{f"photos/{m}": [*PHOTOS, f"method={m}"] for m in ("er-ace", "aer-abs")},
}

# Settings and keys of result.json that have been renamed: new -> old.
SETTINGS = {"buffer_size": "buffer", "algorithm": "learner"}
KEYS = {
    "memory": "buffer",
    "memories": "buffers",
    "memory_rows": "buffer_samples",
    "learner": "algorithm",
    "wrong": "noisy",
}
NO_RESULT = {
    *("seconds", "seconds_per_phase", "images_per_second", "peak_rss_mb"),
    *("versions", "git", "environments", "files", "sha256"),
}
TEXTS = {"event", "tested_on", "plain", "fallback"}  # words, not numbers


def old_words(words: list[str]) -> list[str]:
    """Return settings by the names they had before they were renamed."""
    for new, old in SETTINGS.items():
        words = [w.replace(f"{new}=", f"{old}=").replace(f"{new}.", f"{old}.") for w in words]
    return words


def make_photos(home: Path) -> None:
    """Write a few smooth photos in the layout of Food-101N."""
    import numpy as np
    from PIL import Image

    from remnant.data.food101n import CLASSES

    rng = np.random.default_rng(0)
    (home / "meta").mkdir(parents=True)
    (home / "meta" / "classes.txt").write_text("class_name\n" + "\n".join(CLASSES) + "\n")
    for part, count in (("train", 4), ("val", 2)):
        lines = ["class_name/key\tverification_label"]
        for dish in CLASSES[::9]:
            for i in range(count):
                (home / "images" / dish).mkdir(parents=True, exist_ok=True)
                rough = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
                rough.resize((48, 40), Image.Resampling.BICUBIC).save(home / f"images/{dish}/{part}{i}.jpg")
                lines.append(f"{dish}/{part}{i}.jpg\t{int(i != 2)}")
        (home / "meta" / f"verified_{part}.tsv").write_text("\n".join(lines) + "\n")


def digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


def canonical(value: Any) -> Any:  # noqa: ANN401
    """Return results with renamed keys mapped, without texts, times and versions."""
    if isinstance(value, dict):
        kept = {KEYS.get(k, k): v for k, v in value.items() if k not in NO_RESULT | TEXTS}
        return {k: canonical(kept[k]) for k in sorted(kept)}
    return [canonical(v) for v in value] if isinstance(value, list) else value


def tensors(path: Path) -> dict[str, str]:
    from safetensors.torch import load_file

    content = load_file(path)
    return {
        k: digest((str(v.dtype), tuple(v.shape), v.contiguous().numpy().tobytes()))
        for k, v in content.items()
    }


def parts_of(folder: Path) -> dict[str, Any]:
    """Return the results and metrics of a run folder, and a digest for each other part."""
    result = canonical(json.loads((folder / "result.json").read_text()))
    lines = [canonical(json.loads(line)) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    stored = {
        KEYS.get(path.stem, path.stem): {k: v for k, v in tensors(path).items() if k not in ("loss", "truth")}
        for path in sorted(folder.glob("*.safetensors"))
        if path.stem != "model"
    }
    last = max((folder / "checkpoint").glob("*.safetensors"))
    is_weight = lambda name: "." in name or name in ("mask", "seed")  # noqa: E731
    weights = [
        (name, value)
        for path, value in tensors(last).items()
        if is_weight(name := path.rpartition("/")[2]) and "/moments/" not in path
    ]
    tensor_parts = {"buffer": digest(stored), "weights": digest(sorted(weights))}
    return {"result": result, "metrics": lines, **tensor_parts}


def common(value: Any, other: Any) -> Any:  # noqa: ANN401
    """Return results without the keys that the other side does not have.

    >>> common({"faa": 1, "new": 2, "list": [{"a": 3, "b": 4}]}, {"faa": 5, "list": [{"a": 6}]})
    {'faa': 1, 'list': [{'a': 3}]}
    """
    if isinstance(value, dict) and isinstance(other, dict):
        return {key: common(value[key], other[key]) for key in value if key in other}
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return [common(a, b) for a, b in zip(value, other, strict=True)]
    return value


def side(data_dir: Path, only: list[str], out: Path) -> None:
    """Run all cases with the code that is on the path, and write their digests."""
    from remnant import cli

    is_old = Path(cli.__file__).name == "cli.py"  # before the packages, settings had other names
    with tempfile.TemporaryDirectory() as temporary:
        photos = Path(temporary) / "photos"
        make_photos(photos / "Food-101N_release")
        for name in only or CASES:
            target = out / f"{name.replace('/', '--')}.json"
            if target.exists():
                continue
            words = old_words(CASES[name]) if is_old else CASES[name]
            place = photos if name.startswith("photos") else data_dir
            runs = Path(temporary) / "runs" / name
            sys.argv = ["remnant", "run", *words, "--out", str(runs), "--data-dir", str(place), "-q"]
            try:
                cli.main()
            except SystemExit as end:
                if end.code:
                    raise SystemExit(f"{name}: failed with {end.code}: {' '.join(words)}") from end
            (folder,) = runs.iterdir()
            target.write_text(json.dumps(parts_of(folder)))


def main() -> None:
    """Run both sides and print the table; the exit code says whether they agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--data-dir", type=Path, default=Path.home() / "data")
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE")
    parser.add_argument("--keep", type=Path, help="folder for the digests of OLD, reused if they are there")
    parser.add_argument("--side", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        return side(args.data_dir, args.only, args.new)
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        places = {args.old: args.keep or Path(temporary) / "old", args.new: Path(temporary) / "new"}
        processes = []
        for checkout, place in places.items():
            place.mkdir(parents=True, exist_ok=True)
            command = [
                sys.executable,
                __file__,
                str(checkout),
                str(place),
                "--data-dir",
                str(args.data_dir),
                "--side",
            ]
            environment = os.environ | {
                "PYTHONPATH": str((checkout / "src").resolve()),
                "REMNANT_DATA": "",
            }
            command += ["--only", *args.only] if args.only else []
            processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
        if any(process.wait() for process in processes):
            sys.exit("a side failed")
        for checkout, place in places.items():
            found[checkout] = {
                p.stem.replace("--", "/"): json.loads(p.read_text()) for p in place.glob("*.json")
            }
    names = args.only or list(CASES)
    parts = ("result", "metrics", "buffer", "weights")
    print(f"{'case':28s} {'FAA':>6s}  " + "".join(f"{part:28s}" for part in parts))
    differing = 0
    for name in names:
        both = found[args.old][name], found[args.new][name]
        faa = both[1]["result"]["faa"]
        old, new = ({p: digest(common(a[p], b[p])) for p in parts} for a, b in (both, both[::-1]))
        cells = [new[p] if old[p] == new[p] else f"{old[p]} -> {new[p]}" for p in parts]
        differing += any(old[p] != new[p] for p in parts)
        print(f"{name:28s} {faa:6.2f}  " + "".join(f"{cell:28s}" for cell in cells))
    print(f"{len(names)} cases, {differing} differ")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
