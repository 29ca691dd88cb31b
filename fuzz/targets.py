"""Every parser of the package, with valid inputs that are made by code."""

import contextlib
import csv
import dataclasses
import hashlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from fuzz import mutate
from remnant.cli.run import parse
from remnant.config import resolve
from remnant.config.recipe import to_config
from remnant.data.cifar import CIFAR10_FILES, _read_file as read_cifar
from remnant.data.dataset import Spec, arrays
from remnant.data.fashion import parse_idx
from remnant.data.files import Place
from remnant.data.food101n import CLASSES, read_verified
from remnant.data.images import read_image
from remnant.data.nw_ucla import FILE as NW_UCLA, load_nw_ucla
from remnant.data.own import parse_own_data
from remnant.data.own.listing import class_notes, natural_order
from remnant.data.skeleton_file import read_people
from remnant.data.torch_file import read_torch, read_weights
from remnant.errors import RemnantError, printable
from remnant.experiment.checkpoint import READ_ERRORS, History, pack, read as read_checkpoint
from remnant.experiment.result import own_hash
from remnant.learner.learner import Learner
from remnant.models.model import read_model
from remnant.noise.from_file import read_archive, read_labels
from remnant.report.audit.decisions import read_decisions
from remnant.report.audit.page import render
from remnant.report.audit.samples import AuditedRun, Doubt, read_doubts
from remnant.report.tables import find_metrics, make_table
from remnant.report.tables.formats import comma_separated
from remnant.report.tables.stored import read_stored
from remnant.suspects.table import Suspect, csv_file
from remnant.sweep.grid import expand, read_grid
from remnant.transforms.image import ImageTransform
from remnant.transforms.resizing import upright_crop


@dataclass(frozen=True)
class Target:
    """A parser. `seeds` returns valid inputs, and may prepare the folder in which `parse` works."""

    name: str
    seeds: Callable[[Path], list[bytes]]
    parse: Callable[[Path, bytes], object]
    mutate: mutate.Mutate


def of_file(name: str, read: Callable[[Path], object]) -> Callable[[Path, bytes], object]:
    """Return a parser that writes its input to a file of this name, and reads the file."""

    def parse_file(folder: Path, content: bytes) -> object:
        path = folder / name
        path.write_bytes(content)
        return read(path)

    return parse_file


def given(*contents: bytes) -> Callable[[Path], list[bytes]]:
    """Return a function that returns these inputs."""
    return lambda folder: list(contents)


def written(write: Callable[[io.BytesIO], object]) -> bytes:
    """Return what a function writes to a file."""
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def image_files() -> list[bytes]:
    """Return an image in each format that is read."""
    pixels = np.random.default_rng(0).integers(0, 256, (12, 9, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    kinds = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
    return [written(lambda file, kind=kind: image.save(file, kind)) for kind in kinds]


def decoded(path: Path) -> None:
    """Decode an image; ValueError is the documented error of a damaged one."""
    try:
        read_image(path, 8, upright_crop)
    except ValueError as error:
        raise RemnantError(str(error)) from error


def cifar_pickle() -> bytes:
    """Return a file of two samples as Python 2 wrote it; memo entries are not needed."""
    data = bytes(range(256)) * 24
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    size = len(data).to_bytes(4, "little")
    array += b"(K\x01K\x02M\x00\x0c\x86" + kind + b"\x89T" + size + data + b"tb"
    return b"\x80\x02}(U\x04data" + array + b"U\x06labels](K\x01K\x09eu."


def cifar(path: Path) -> object:
    """Read a file as if it were a published one."""
    digest = hashlib.md5(path.read_bytes()).hexdigest()
    files = dataclasses.replace(CIFAR10_FILES, md5={path.name: digest})
    return read_cifar(Place(files, path.parent, None), path.name, {"labels": 10})


def nw_ucla() -> bytes:
    """Return four short sequences."""
    joints = np.random.default_rng(0).normal(size=(12, 20, 3)).astype(np.float32)
    is_train = np.array([True, True, False, False])
    return written(lambda file: np.savez(file, joints=joints, offsets=np.arange(0, 13, 3),
                                         y=np.arange(4), is_train_crossview=is_train))  # fmt: skip


def skeleton() -> bytes:
    """Return two frames of one body."""
    joint = "0.1 -0.2 3.5 277.4 191.8 1036.2 519.5 -0.2 0 -0.1 0.9 2"
    frame = ["1", "72057594037931101 0 1 1 1 1 0 0.0211 -0.0323 2", "25", *[joint] * 25]
    return "\n".join(["2", *frame, *frame, ""]).encode()


def food_lists(folder: Path) -> list[bytes]:
    """Write the list of classes; return a list of photos."""
    (folder / "meta").mkdir()
    (folder / "meta/classes.txt").write_text("\n".join(["class_name", *CLASSES]))
    return [b"class_name/key\tverification_label\npizza/1.jpg\t1\nsushi/2.jpg\t0\n"]


def checkpoint_state() -> bytes:
    """Return a small checkpoint."""
    history = History(records=[{"event": "task"}], tasks=1, steps=3, losses={"learn": (0.5, 3)})
    weights = {"net": {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(1)}}
    return pack({"run": "r", "history": vars(history), "learner": {"weights": weights, "epoch": 1}})


def checkpoint(folder: Path, content: bytes) -> object:
    """Read a checkpoint whose name has the right digest; READ_ERRORS are its documented errors."""
    path = folder / f"00000001-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    path.write_bytes(content)
    try:
        return History.restored(read_checkpoint(path)["history"])
    except READ_ERRORS as error:
        raise RemnantError(str(error)) from error
    finally:
        path.unlink()


def saved(name: str) -> Callable[[Path], list[bytes]]:
    """Return a function that trains a tiny learner and returns one of its files."""

    def seeds(folder: Path) -> list[bytes]:
        x = np.random.default_rng(0).integers(0, 255, (12, 8, 8), dtype=np.uint8)
        learner = Learner(method="er", net="small:2", buffer_size=4, epochs=1)
        learner.learn(x, ["a", "b"] * 6).save(folder)
        return [(folder / name).read_bytes()]

    return seeds


CLASS_NAMES = ("cat", "=dog", "<b>")


def audited() -> AuditedRun:
    """Return a run on six samples."""
    spec = Spec("tiny", (1, 4, 4), CLASS_NAMES, ImageTransform((0.5,), (0.3,)))
    x, y = np.zeros((6, 1, 4, 4), np.uint8), np.arange(6) % 3
    data = dataclasses.replace(arrays(spec, x, y, x, y), files=tuple(f"{i}.png" for i in range(6)))
    return AuditedRun(Path("run"), resolve({}), data, y, tuple(Doubt(i, 0, 0.5, True) for i in range(6)))


RUN = audited()


def suspects() -> bytes:
    """Return the suspects.csv of the run."""
    names = [CLASS_NAMES[i % 3] for i in range(6)]
    return csv_file([Suspect(i, f"{i}.png", 1, True, 0.1, names[i], names[0], False) for i in range(6)])


def results(path: Path) -> None:
    """Read stored results, and make a table of them. Their hash is made to match: anybody can do that."""
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(table := json.loads(path.read_bytes()), dict):
            path.write_text(json.dumps(table | {"sha256": own_hash(table)}))
    comma_separated(make_table(read_stored(path), find_metrics(["faa", "purity"])))


def stored() -> bytes:
    """Return two stored results."""
    entry = {"method": "er", "data": "digits", "noise": "none", "seed": 0, "faa": 50.0, "by_epoch": {},
             "buffer": {"purity": 80.0}}  # fmt: skip
    runs = [{"config": {"seed": i, "lr": 0.1}, "result": entry | {"seed": i}} for i in (0, 1)]
    return json.dumps({"format": "remnant results 1", "config": {"name": "digits"}, "runs": runs}).encode()


def class_names(folder: Path, content: bytes) -> None:
    """Show texts as names of classes: in order, in CSV, in a page and in the terminal."""
    texts = content.decode("utf-8", "surrogateescape").split("\n")
    names = tuple(name for name in dict.fromkeys(texts) if name not in CLASS_NAMES)
    spec = dataclasses.replace(RUN.data.spec, classes=(*names, *CLASS_NAMES))
    page = render(dataclasses.replace(RUN, data=dataclasses.replace(RUN.data, spec=spec)))
    assert page.count("<script") == 2, "a name is a part of the page"
    class_notes(natural_order(names))
    table = csv_file([Suspect(0, name, 1, True, 0.1, name, name, False) for name in names])
    csv.field_size_limit(2**24)
    cells = [cell for row in csv.reader(io.StringIO(table.decode(), newline="")) for cell in row]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    assert not set(printable("".join(names))) & set("\x1b\x07\x08\r\u202e")


def settings(folder: Path, content: bytes) -> object:
    """Resolve lines of key=value."""
    lines = content.decode(errors="replace").split("\n")
    return to_config(*parse([], [line for line in lines if line.strip()]))


RECIPE = b'method = "er-ace"\nnoise = "symmetric:0.4"\nepochs = 2\n[net]\nname = "small"\nwidth = 4\n' + (
    b'[[for]]\nmethod = ["er", "er-ace"]\nlr = 0.1\n'
)
GRID = b'recipe = "digits"\nmethod = ["aer-abs", "abs"]\nseed = "0-1"\n[insertion]\nalpha = [0.5, 0.75]\n'
TABLE = b"path,label,task,split\na.png,cat,1,train\nb.png,dog,1,train\nc.png,cat,2,test\nd.png,dog,2,\n"
DECISIONS = (
    b"id,path,given,decision,label\n0,0.png,cat,wrong,'=dog\n1,1.png,'=dog,right,'=dog\n2,2.png,<b>,skip,\n"
)
TENSORS = {"a": torch.arange(6), "b": [1, 2, 3], "c": torch.ones(2)}


def targets() -> Iterator[Target]:
    """Yield all parsers."""
    text, raw = mutate.of_text, mutate.of_bytes
    npz = written(lambda file: np.savez(file, labels=np.arange(5), names=np.array(["a", "b"])))
    pt, old = (
        written(lambda f, z=z: torch.save(TENSORS, f, _use_new_zipfile_serialization=z))
        for z in (True, False)
    )
    yield Target("recipe", given(RECIPE), of_file("a.toml", lambda p: to_config(str(p), {})), text)
    yield Target("grid", given(GRID), of_file("g.toml", lambda p: expand(read_grid(str(p)))), text)
    yield Target("settings", given(b"method=er\nlr=0.1\nnet.width=4\nnoise=symmetric:0.4"), settings, text)
    yield Target(
        "table", given(TABLE), of_file("t.csv", lambda p: parse_own_data(f"table:{p}").blank()), text
    )
    npy = written(lambda file: np.save(file, np.arange(5)))
    yield Target("npy", given(npy), of_file("a.npy", lambda p: read_labels(p, "")), raw)
    yield Target(
        "npz",
        given(npz),
        of_file("a.npz", lambda p: (read_archive(p), read_labels(p, "labels"))),
        mutate.of_zip,
    )
    yield Target("labels-csv", given(b"0\n1\n2\n"), of_file("a.csv", lambda p: read_labels(p, "")), text)
    yield Target(
        "nw-ucla", given(nw_ucla()), of_file(NW_UCLA, lambda p: load_nw_ucla(p.parent)), mutate.of_zip
    )
    idx = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, *range(6)])
    yield Target("idx", given(idx), lambda folder, content: parse_idx(content, 2, folder), raw)
    yield Target("cifar", given(cifar_pickle()), of_file("data_batch_1", cifar), raw)
    yield Target("pt", given(pt), of_file("a.pt", lambda p: (read_weights(p), read_torch(p))), mutate.of_zip)
    yield Target("pt-plain", given(old), of_file("a.pt", lambda p: (read_weights(p), read_torch(p))), raw)
    yield Target("skeleton", given(skeleton()), of_file("a.skeleton", lambda p: read_people(p, 4)), text)
    food = of_file("meta/verified_train.tsv", lambda p: read_verified(p.parent.parent, "train"))
    yield Target("food101n", food_lists, food, text)
    yield Target("image", given(*image_files()), of_file("a.png", decoded), raw)
    yield Target("checkpoint", given(checkpoint_state()), checkpoint, mutate.of_safetensors)
    model = of_file("model.safetensors", read_model)
    yield Target("model", saved("model.safetensors"), model, mutate.of_safetensors)
    learner = of_file("learner.safetensors", lambda p: Learner.load(p.parent))
    yield Target("learner", saved("learner.safetensors"), learner, mutate.of_safetensors)
    yield Target("decisions", given(DECISIONS), of_file("d.csv", lambda p: read_decisions(p, RUN)), text)
    doubts = of_file("suspects.csv", lambda p: read_doubts(p, RUN.data, RUN.observed))
    yield Target("suspects", given(suspects()), doubts, text)
    yield Target("results", given(stored()), of_file("r.json", results), mutate.of_json)
    yield Target("class-names", given(b"cat\ndog\n=x\n<b>"), class_names, text)


TARGETS = {target.name: target for target in targets()}
