"""A local HTTP server of data files, for tests of downloads."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from remnant.data.files import Download


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


@dataclass
class Server:
    """A local HTTP server: the folder it serves and the paths that were requested."""

    folder: Path
    url: str = ""
    requests: list[str] = field(default_factory=list)

    def publish(self, name: str, content: bytes, *files: str, folder: str | None = None) -> Download:
        (self.folder / name).write_bytes(content)
        return Download(f"{self.url}/{name}", md5(content), files, folder)


class Handler(SimpleHTTPRequestHandler):
    def __init__(self, *args: object, requests: list[str], directory: str) -> None:
        self.requests = requests
        super().__init__(*args, directory=directory)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    requests: list[str] = []
    handler = partial(Handler, requests=requests, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Server(folder, f"http://127.0.0.1:{http.server_address[1]}", requests)
        finally:
            http.shutdown()
            thread.join()


def tar(**contents: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"toy-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


def put(folder: Path, **contents: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def visible(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != ".remnant.lock"}
