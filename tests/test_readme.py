import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remnant import recipe
from remnant.config import resolve

NOISY = ("symmetric:0.2", "symmetric:0.4")
README = (Path(__file__).parent.parent / "README.md").read_text()
*PROGRAMS, PLUGIN = [
    code for code in re.findall(r"```python\n(.*?)```", README, re.S) if code.startswith("import ")
]


@pytest.mark.parametrize("program", PROGRAMS, ids=["with the runner", "without it"])
def test_the_programs_of_the_readme_run(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shorter = re.sub(r'(epochs"?[=:] ?)20', r"\g<1>2", program)
    assert shorter != program
    exec(compile(shorter, "README.md", "exec"), {})


def test_the_readme_shows_two_programs() -> None:
    assert len(PROGRAMS) == 2


def test_the_benchmark_of_the_readme_loads(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(PLUGIN, "README.md", "exec"), names)
    x, y = np.zeros((8, 3, 32, 32), np.uint8), np.arange(8) % 4
    np.savez(tmp_path / "bears.npz", x=x, y=y, test_x=x, test_y=y)
    assert len(names["BEARS"].loader(tmp_path).train) == 8


def test_the_recipe_of_the_readme_resolves(tmp_path: Path) -> None:
    (text,) = (code for code in re.findall(r"```toml\n(.*?)```", README, re.S) if "base" in code)
    (tmp_path / "mine.toml").write_text(text)
    table = recipe.read(str(tmp_path / "mine.toml"))
    rates = [resolve(recipe.apply(table, ["method=er-ace", f"noise={n}"])).lr for n in NOISY]
    assert rates == [0.1, 0.03]


def test_every_file_the_readme_links_to_is_there() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (Path(__file__).parent.parent / link).exists(), link
