from pathlib import Path

import pytest
from run_folders import finished

from remnant.errors import RemnantError
from remnant.report.markers import updated
from remnant.report.tables.stored import store

PAGE = """# Results

<!-- table: r.json metric=faa to=er -->
an old table
<!-- /table -->

The end.
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store(
        tmp_path / "r.json", [finished("er", faa=40.0), finished("aer", faa=50.0), finished("abs", faa=45.0)]
    )
    return tmp_path


def test_a_table_is_generated_between_comments_and_nothing_else_changes(root: Path) -> None:
    text = updated(PAGE, root)
    assert "an old table" not in text
    assert "| aer | 50.0 | +10.0 | 0 |" in text
    assert text.startswith("# Results\n\n<!-- table: r.json metric=faa to=er -->\n")
    assert text.endswith("<!-- /table -->\n\nThe end.\n")
    assert updated(text, root) == text


def test_runs_are_selected_by_method_and_noise(root: Path) -> None:
    text = updated(PAGE.replace("to=er", "methods=er,abs"), root)
    assert "| abs |" in text
    assert "| aer |" not in text
    with pytest.raises(RemnantError, match="found none"):
        updated(PAGE.replace("to=er", "noise=none"), root)


def test_the_claims_of_the_paper_are_listed_with_what_is_shown(root: Path) -> None:
    text = updated("<!-- verify: r.json -->\n<!-- /verify -->", root)
    assert "- **not testable**: NTU-60 (Table 1); it needs its skeletons" in text


def test_an_unknown_option_is_an_error(root: Path) -> None:
    with pytest.raises(RemnantError, match="expected the options noise, methods, metric, to, got"):
        updated(PAGE.replace("to=er", "colour=red"), root)
