import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
PROGRAMS = [
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


def test_every_file_the_readme_links_to_is_there() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (Path(__file__).parent.parent / link).exists(), link
