from pathlib import Path

import pytest
from conftest import tiny_config
from report_runs import measured
from run_folders import finished, write_run

from remnant.errors import RemnantError
from remnant.report.runs import differing_settings, find_runs, skipped_runs


def test_runs_are_found_at_any_depth_each_once_and_sorted(tmp_path: Path) -> None:
    second = write_run(tmp_path / "a" / "b" / "second", finished("er", seed=1))
    first = write_run(tmp_path / "z", finished("er", seed=0))
    other = write_run(tmp_path / "a" / "other", finished("aer", seed=5))
    found = find_runs([tmp_path / "a", second, tmp_path])
    assert [run.folder for run in found] == [other, first, second]
    run = found[0]
    assert (run.method, run.data, run.noise, run.seed) == ("aer", "digits", "symmetric:0.4", 5)


def test_unfinished_and_damaged_runs_are_left_out_and_named(tmp_path: Path) -> None:
    unfinished, damaged, changed = (
        write_run(tmp_path / name, finished()) for name in ("unfinished", "damaged", "changed")
    )
    intact = write_run(tmp_path / "intact", finished())
    (unfinished / "result.json").unlink()
    (damaged / "result.json").write_text((damaged / "result.json").read_text().replace("50.0", "99.0"))
    (changed / "config.toml").write_text('method = "er"\n')
    assert [run.folder for run in find_runs([tmp_path])] == [intact]
    why = skipped_runs([tmp_path])
    assert why[unfinished] == "not finished"
    assert "sha256" in why[damaged]
    assert "config.toml has changed" in why[changed]
    assert intact not in why


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match="expected a run folder"):
        find_runs([tmp_path / "nothing"])


def test_the_lines_of_metrics_are_read(tmp_path: Path) -> None:
    write_run(tmp_path / "run", finished(), [{"event": "epoch", "epoch": 0}, {"event": "task", "task": 0}])
    assert [record["event"] for record in find_runs([tmp_path])[0].records()] == ["epoch", "task"]


def test_settings_differ_if_two_runs_have_other_values_or_one_has_none() -> None:
    runs = [finished(seed=0, lr=0.1), finished(seed=1, lr=0.3), finished(seed=2, net={"name": "small"})]
    assert differing_settings(runs) == ["lr", "seed", "net.name"]
    assert differing_settings(runs[:1]) == []


def test_components_that_follow_from_the_method_do_not_count_as_different() -> None:
    er, alpha = (
        finished(m, insertion={"name": "lowest-loss", "alpha": a}) for m, a in (("er", 0.0), ("abs", 0.75))
    )
    custom = finished("abs-custom", insertion={"name": "lowest-loss", "alpha": 0.5})
    assert differing_settings([er, alpha]) == []
    assert differing_settings([er, alpha, custom]) == ["insertion.alpha"]


def test_a_real_config_has_settings_with_dotted_names() -> None:
    settings = finished(**tiny_config().table()).settings()
    assert settings["noise.rate"] == 0.4
    assert settings["insertion.alpha"] == 0.75


def test_a_class_that_occurs_in_several_tasks_is_named_once() -> None:
    run = measured("er", classes=[["cat", "dog"], ["dog", "fox"]])
    assert run.classes == ["cat", "dog", "fox"]
