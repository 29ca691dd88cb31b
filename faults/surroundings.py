"""What the commands need before they start: imported modules, and a server that publishes a dataset."""

import http.server
import io
import os
import sys
import tarfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import child
import scenarios


def publish(folder: Path) -> int:
    """Serve a dataset `toy` in a process of its own, add it to the registry, and return the process."""
    from remnant.data.digits import DIGITS, load_digits
    from remnant.data.registry import DATA, Entry

    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in scenarios.TOY.items():
            member = tarfile.TarInfo(f"toy-py/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    folder.mkdir()
    (folder / "toy.tar.gz").write_bytes(content.getvalue())
    handler = type("Silent", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    files = scenarios.toy_files(f"http://127.0.0.1:{server.server_address[1]}", content.getvalue())
    DATA["toy"] = Entry(DIGITS, "a toy", load_digits, files)
    pid = os.fork()
    if not pid:
        server.serve_forever()
    server.server_close()
    return pid


def import_everything() -> None:
    """Import what commands import when they need it, and replace what would take most of their time."""
    import pooch  # noqa: F401
    import requests  # noqa: F401
    import sklearn.datasets
    import sklearn.mixture  # noqa: F401
    import torch
    import torch._dynamo

    import remnant.cli
    import remnant.experiment.run
    import remnant.learner.learner
    import remnant.report.audit.page
    import remnant.sweep.backends.worker  # noqa: F401
    from remnant.sweep.backends import local

    torch.set_num_threads(1)
    os.environ |= {"NO_PROXY": "127.0.0.1", "COLUMNS": "200"}
    sys.modules["matplotlib"] = None  # type: ignore[assignment]  # a report takes longer than its run
    local.subprocess = SimpleNamespace(PIPE=-1, Popen=child.ForkedProcess)  # type: ignore[assignment]
