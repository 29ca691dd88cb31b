"""Runs to audit: hostile names, a table of images, chosen doubts."""

import dataclasses
from pathlib import Path

import numpy as np
from conftest import tiny_config, tiny_data
from own_files import write_image, write_table

from remnant.config import resolve
from remnant.experiment.build import build_dataset
from remnant.report.audit.samples import AuditedRun, Doubt

HOSTILE = ("</script><script>alert(1)//", '=1+1,"x"', "<img src=x onerror=alert(2)>", "cat")
FILES = ('-a,"b";c.png', "<b onclick=alert(3)>.png", "=x.png", "${alert(4)} ä.png")


def hostile_run() -> AuditedRun:
    """A run on four classes of two images; the first of each class is doubtful."""
    data = tiny_data(classes=4, rows=2)
    spec = dataclasses.replace(data.spec, classes=HOSTILE)
    data = dataclasses.replace(data, spec=spec, files=tuple(f"{i}/{FILES[i // 2]}" for i in range(8)))
    doubts = [Doubt(i, (i // 2 + 1) % 4, 0.1 + i / 100, True) for i in range(0, 8, 2)]
    doubts += [Doubt(i, i // 2, 0.9, False) for i in range(1, 8, 2)]
    return AuditedRun(Path("runs/hostile-1"), tiny_config(), data, data.y, tuple(doubts))


def hostile_table(home: Path, per_class: int = 6) -> Path:
    """Write images with hostile names, and a table of them with hostile labels."""
    rows = []
    for number, label in enumerate(HOSTILE):
        for i in range(per_class):
            file = f"{i}{FILES[number]}" if i else FILES[number]
            write_image(home / "images" / file)
            rows.append((f"images/{file}", label))
    return write_table(home / "table.csv", ("path", "label"), rows)


def table_run(table: Path, cache: Path, **settings: object) -> AuditedRun:
    """A run on a table, in which no label is doubtful."""
    config = resolve({"data": {"name": "table", "path": str(table), **settings}, "tasks": 1})
    data, observed = build_dataset(config, cache)
    doubts = tuple(Doubt(i, int(y), 0.9, False) for i, y in enumerate(observed))
    return AuditedRun(Path("runs/table-1"), config, data, np.asarray(observed), doubts)
