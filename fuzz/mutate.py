"""Mutations of valid inputs: of bytes, of text, and of the parts of JSON, zip archives and safetensors."""

import io
import json
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

Mutate = Callable[[bytes, Random], bytes]

# Values at which programs tend to fail: limits of integers, other types, hostile texts.
NUMBERS = (0, 1, -1, 2**31 - 1, 2**31, 2**32, 2**63, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"))
TEXTS = (
    *(
        "",
        " ",
        "\0",
        "'",
        '"',
        "\n",
        "\r",
        "\t",
        "=1+1",
        "@x",
        "\x1b[2J",
        "<script>",
        "../../x",
        "/etc/passwd",
    ),
    *(
        "\ud800",
        "\u202e",
        "x" * 3000,
        "9" * 5000,
        "evil.py:NAME",
        "nan",
        "inf",
        "1e999",
        "true",
        "[",
        "{",
        "]]",
    ),
)
MOST = 8  # mutations of one input


def of_bytes(content: bytes, rng: Random) -> bytes:
    """Change, insert, delete, repeat or cut off some bytes."""
    data = bytearray(content)
    for _ in range(rng.randint(1, MOST)):
        at, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        end = min(end, at + rng.choice((1, 4, 64, 4096)))
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:end] = rng.randbytes(end - at)
        elif kind == 2:
            del data[at:end]
        elif kind == 3:
            data[at:at] = data[at:end] * rng.choice((1, 2, 50))
        elif kind == 4:
            value = rng.choice((0, 1, 0x7F, 0xFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1))
            size = rng.choice((1, 2, 4, 8))
            data[at : at + size] = (value % 256**size).to_bytes(size, rng.choice(("little", "big")))
        elif rng.random() < 0.2:
            del data[at:]
    return bytes(data)


def of_text(content: bytes, rng: Random) -> bytes:
    """Replace words, and repeat, remove or exchange lines; sometimes change bytes as well."""
    lines = content.decode(errors="replace").split("\n")
    for _ in range(rng.randint(1, MOST)):
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        kind = rng.randrange(5)
        if kind == 0:
            lines[i], lines[j] = lines[j], lines[i]
        elif kind == 1:
            lines.insert(i, lines[j])
        elif kind == 2 and len(lines) > 1:
            del lines[i]
        else:
            at = rng.randrange(len(lines[i]) + 1)
            cut = at + rng.choice((0, 0, 1, 5))
            lines[i] = lines[i][:at] + str(rng.choice(NUMBERS + TEXTS)) + lines[i][cut:]
    changed = "\n".join(lines).encode(errors="surrogatepass")
    return of_bytes(changed, rng) if rng.random() < 0.2 else changed


def of_json(content: bytes, rng: Random) -> bytes:
    """Replace, remove or nest values of a JSON text; sometimes change its text as well."""
    try:
        tree = json.loads(content)
    except ValueError:  # it was changed before
        return of_text(content, rng)
    for _ in range(rng.randint(1, 3)):
        tree = _changed(tree, rng)
    text = json.dumps(tree).encode()
    return of_text(text, rng) if rng.random() < 0.1 else text


def _changed(tree: Any, rng: Random) -> Any:  # noqa: ANN401
    """Return a tree with one change at a random place."""
    if isinstance(tree, dict) and tree and rng.random() < 0.93:
        key = rng.choice(list(tree))
        if rng.random() < 0.1:
            return {k: v for k, v in tree.items() if k != key}
        if rng.random() < 0.05:
            return tree | {rng.choice(TEXTS): tree[key]}
        return tree | {key: _changed(tree[key], rng)}
    if isinstance(tree, list) and tree and rng.random() < 0.9:
        i = rng.randrange(len(tree))
        return [*tree[:i], _changed(tree[i], rng), *tree[i + 1 :]] if rng.random() < 0.9 else tree[:i]
    if isinstance(tree, str) and tree[:1] == "{" and rng.random() < 0.95:
        return of_json(tree.encode(), rng).decode(errors="replace")  # JSON in JSON, as in safetensors
    others = (*NUMBERS, *TEXTS, None, True, [], {}, [tree], {"name": tree}, [tree] * 50, _deep())
    return rng.choice(others)


def _deep() -> list[Any]:
    tree: list[Any] = []
    for _ in range(300):
        tree = [tree]
    return tree


def of_safetensors(content: bytes, rng: Random) -> bytes:
    """Change the header as JSON, with its length, or bytes anywhere."""
    if rng.random() < 0.2:
        return of_bytes(content, rng)
    length = int.from_bytes(content[:8], "little")
    header = of_json(content[8 : 8 + length], rng)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def of_zip(content: bytes, rng: Random) -> bytes:
    """Change the members of an archive, whose checksums stay right, or bytes anywhere."""
    if rng.random() < 0.2:
        return of_bytes(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    members[name] = of_bytes(members[name], rng)
    if rng.random() < 0.1:
        members[rng.choice(("../x", "/x", "a/data.pkl", "x.npy"))] = members.pop(name)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return file.getvalue()
