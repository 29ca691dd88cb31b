"""The pages of the documentation site, their code blocks, and the commands in them."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PROGRAMS = ("remnant", "python", "python3", "pip", "make", "git", "torchrun", ".")
COMMENT = re.compile(r"(^|\s+)#\s.*")


class Block(NamedTuple):
    """A fenced or indented block of code."""

    language: str  # of a fenced block; "" if none is given, and if the block is indented
    code: str

    @property
    def has_commands(self) -> bool:
        """Whether it is read by a shell."""
        return self.language == "bash" or (not self.language and self.code.split()[0] in PROGRAMS)

    @property
    def commands(self) -> list[str]:
        """The commands without comments."""
        lines = [COMMENT.sub("", line).strip() for line in self.code.splitlines()]
        return [command for line in lines for command in line.split(" && ") if command]


def page_names() -> list[str]:
    """Return the pages of the navigation, and the decisions, which are listed on one of them."""
    table = tomllib.loads((ROOT / "docs" / "site" / "zensical.toml").read_text())
    adrs = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/adr/0*.md"))
    return [*_paths(table["project"]["nav"]), *adrs]


def _paths(entries: list[dict[str, Any]]) -> Iterator[str]:
    for value in (value for entry in entries for value in entry.values()):
        if isinstance(value, str):
            yield value
        else:
            yield from _paths(value)


def blocks(page: str) -> list[Block]:
    """Return the code blocks of a page in their order."""
    text = (ROOT / page).read_text()
    fenced = r"^(?P<fence> *```)(?P<language>\w*)\n(?P<code>.*?)^ *```$"
    indented = r"(?<=\n\n)(?P<lines>(?:(?: {4}[^\n]*)?\n)+)"
    found = re.finditer(f"{fenced}|{indented}", text + "\n", re.S | re.M)
    every = [Block(match["language"] or "", match["code"] or match["lines"]) for match in found]
    return [block for block in every if block.code.strip()]


def commands(page: str) -> list[str]:
    """Return the commands of all blocks of a page."""
    return [line for block in blocks(page) if block.has_commands for line in block.commands]


def snippets(page: str, language: str) -> list[str]:
    """Return the blocks of a page in a language."""
    return [block.code for block in blocks(page) if block.language == language]
