"""The page audit.html: images in the order of doubt, which can be judged by keyboard and offline.

A picture takes at most 23 kB of the page, so that a page of 500 samples has less than 12 MB.
"""

import base64
import hashlib
import html
import json
import os
from pathlib import Path
from string import Template
from typing import Any

from remnant import __version__
from remnant.data.images import progress_bar
from remnant.errors import RemnantError
from remnant.experiment.checkpoint import write_atomically
from remnant.report.audit.pictures import picture
from remnant.report.audit.samples import AuditedRun, Doubt, leaves_out
from remnant.report.html.page import TEMPLATES as SHARED

TEMPLATES = Path(__file__).parent / "templates"
MOST = 500  # samples in a page
PAGE_START = b"<!doctype html>"


def check_page(path: Path) -> None:
    """Raise RemnantError if something else than an earlier page would be overwritten."""
    if not os.path.lexists(path):
        return
    start = b""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(len(PAGE_START))
    if start.lower() != PAGE_START:
        raise RemnantError(
            f"{path}: expected a new file or an earlier page, found something else, which would be "
            "overwritten. Choose another name."
        )


def write_audit(path: Path, run: AuditedRun, most: int = MOST) -> None:
    """Write the page of a run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render(run, most).encode())


def render(run: AuditedRun, most: int = MOST) -> str:
    """Return the page. It has no links to other files, and its only script is known by its hash."""
    style = "".join(_text(path) for path in (SHARED / "report.css", TEMPLATES / "audit.css"))
    script = "".join(_text(path) for path in (SHARED / "theme.js", TEMPLATES / "audit.js"))
    return Template(_text(TEMPLATES / "audit.html")).substitute(
        title=html.escape(f"Labels of {run.data.spec.name}"),
        about=html.escape(_about(run, most)),
        version=html.escape(__version__),
        style=style,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=as_json(page_data(run, most)),
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _about(run: AuditedRun, most: int) -> str:
    total, shown = len(run.doubts), min(most, len(run.doubts))
    suspect = sum(doubt.is_suspect for doubt in run.doubts)
    part = f"All {total:,}" if shown == total else f"{shown:,} of {total:,}"
    marked = f"{suspect:,} labels are marked as suspect" if suspect else "No label is suspect"
    return f"{part} training samples, the most doubtful label first. {marked}. Run {run.id}."


def page_data(run: AuditedRun, most: int) -> dict[str, Any]:
    """Return what the script shows: the classes, and the `most` most doubtful samples."""
    doubts = run.doubts[:most]
    with progress_bar(len(doubts), "audit page") as bar:
        samples = [_sample(run, doubt, bar) for doubt in doubts]
    return {"run": run.id, "classes": run.classes, "canDrop": leaves_out(run), "samples": samples}


def _sample(run: AuditedRun, doubt: Doubt, bar: Any) -> dict[str, Any]:  # noqa: ANN401
    bar.update()
    return {
        "id": int(run.data.index[doubt.position]),
        "path": run.file(doubt.position),
        "given": int(run.observed[doubt.position]),
        "suggested": doubt.suggested,
        "score": round(doubt.score, 4),
        "suspect": doubt.is_suspect,
        "image": picture(run, doubt.position),
    }


def as_json(data: object) -> str:
    r"""Return JSON that cannot end the element of a page that contains it.

    >>> as_json(["</script>"])
    '["\\u003c/script>"]'
    """
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
