"""The commands `remnant learn`, `remnant predict` and `remnant export`."""

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remnant.cli.data import DataDir
from remnant.errors import RemnantError, printable

if TYPE_CHECKING:
    from torch import Tensor

    from remnant.models.model import Model

BATCH = 64  # images that are in memory at a time


def learn(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="A saved learner or a finished run.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="folder:DIR, table:FILE.csv, hf:NAME or a dataset.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the new learner.")],
    data_dir: DataDir = None,
) -> None:
    """Learn a further task, and save the new learner.

    Classes that STATE does not know are added to it. Files that cannot be used are left out and reported.
    The new folder also lists suspect labels.

    Example: remnant learn runs/digits-... folder:photos -o model
    """
    from remnant.experiment.checkpoint import write_atomically
    from remnant.learner.learner import Learner
    from remnant.learner.sources import read_data
    from remnant.suspects.table import csv_file

    if out.resolve() == state.resolve():
        raise RemnantError(f"{out}: expected another folder than STATE, which is not changed. Choose one.")
    learner = Learner.load(state)
    samples = read_data(data, data_dir, learner.image_size)
    for file, reason in samples.left_out.items():
        typer.echo(f"left out: {printable(file)}: {printable(reason)}", err=True)
    learner.learn(samples).save(out)
    table = learner.suspects()
    write_atomically(out / "suspects.csv", csv_file(table))
    suspect = sum(row.is_suspect for row in table)
    left_out = f"; {len(samples.left_out):,} left out" if samples.left_out else ""
    typer.echo(
        f"learned {len(samples.labels):,} samples; {len(learner.classes_)} classes; {suspect:,} suspect "
        f"labels{left_out}"
    )
    typer.echo(out)


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A finished run or a saved learner.")],
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES", help="Image files or folders.")],
    format: Annotated[
        str, typer.Option("--format", metavar="csv|json", help="Format of the output.")
    ] = "csv",
) -> None:
    """Predict the labels of images, which are resized as in training.

    Files that are no images are reported, and the exit status is 1.

    Example: remnant predict model photos/ --format json
    """
    from remnant.models.model import find_model, read_model

    if format not in ("csv", "json"):
        raise RemnantError(f"--format: expected csv or json, got {format}.")
    loaded, found, failed = read_model(find_model(model)), [], 0
    files = [file for path in images for file in _files(path)]
    for start in range(0, len(files), BATCH):
        part = files[start : start + BATCH]
        for path, result in zip(part, _predict(loaded, part), strict=True):
            if isinstance(result, str):
                typer.echo(f"skipped {path}: {result}", err=True)
                failed += 1
            else:
                found.append({"path": str(path), "label": result[0], "confidence": round(result[1], 6)})
    if format == "json":
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _write_csv(found)
    if failed:
        raise typer.Exit(1)


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A finished run or a saved learner.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write.")],
    format: Annotated[str, typer.Option("--format", metavar="onnx|safetensors", help="Format.")] = "onnx",
) -> None:
    """Write a model as ONNX or safetensors.

    An ONNX graph takes raw uint8 images, and its outputs are compared with those of torch.

    Example: remnant export model -o model.onnx
    """
    from remnant.learner.export import export as write
    from remnant.models.model import find_model, read_model

    if format not in ("onnx", "safetensors"):
        raise RemnantError(f"--format: expected onnx or safetensors, got {format}.")
    typer.echo(write(model, read_model(find_model(model)), format, out))


def _files(path: Path) -> list[Path]:
    """Return a file, or the image files in a folder and the folders in it."""
    if not path.is_dir():
        return [path]
    from remnant.data.own.folder import SUFFIXES

    found = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not found:
        raise RemnantError(f"{path}: expected a folder with images ({', '.join(SUFFIXES)}), found none.")
    return found


def _predict(model: "Model", files: list[Path]) -> list[tuple[str | int, float] | str]:
    """Return label and confidence of each image, or why it cannot be read."""
    import torch

    from remnant.data.images import read_image
    from remnant.learner.inputs import with_channels

    if not model.spec.are_images or model.spec.shape[-1] != model.spec.shape[-2]:
        raise RemnantError(f"expected a model of square images, got one of {model.spec.name}.")
    images: dict[int, Tensor] = {}
    results: list[tuple[str | int, float] | str] = [""] * len(files)
    for i, path in enumerate(files):
        try:
            images[i] = torch.from_numpy(read_image(path, model.spec.shape[-1], model.spec.resize))
        except (ValueError, OSError) as error:
            results[i] = str(error)
    if images:
        x = with_channels(torch.stack(list(images.values())), model.spec.shape[0])
        confidence, best = model.probabilities(x).max(1)
        for i, value, number in zip(images, confidence.tolist(), best.tolist(), strict=True):
            results[i] = model.labels[number], value
    return results


def _write_csv(found: list[dict[str, str | int | float]]) -> None:
    from remnant.suspects.table import cell

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("path", "label", "confidence"))
    writer.writerows([cell(value) for value in row.values()] for row in found)
