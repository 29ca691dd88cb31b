from dataclasses import replace

from run_folders import finished

from remnant.config.recipe import to_config
from remnant.report.runs import FinishedRun
from remnant.report.verify.published import PublishedCell, cells_text, published_cells


def our_run(faa: float, seed: int = 0, **changes: object) -> FinishedRun:
    config = to_config("paper/cifar10-spr", {"method": "aer-abs", "seed": seed, **changes})
    run = finished("aer-abs", seed, faa)
    return replace(run, config=config.table(), result={**run.result, "data": "cifar10"})


def spr_cell(runs: list[FinishedRun]) -> PublishedCell:
    (cell,) = (
        cell
        for cell in published_cells(runs)
        if (cell.benchmark, cell.method) == ("cifar10-spr, symmetric:0.4", "aer-abs")
    )
    return cell


def test_a_published_result_that_was_not_run_says_so() -> None:
    cell = spr_cell([finished()])
    assert (cell.published.mean, cell.ours, cell.verdict) == (63.65, None, "not run")


def test_runs_with_the_settings_of_the_paper_are_compared_with_it() -> None:
    assert spr_cell([our_run(63.0, 0), our_run(64.0, 1)]).verdict == "agrees within two standard errors"
    assert spr_cell([our_run(50.0, 0), our_run(51.0, 1)]).verdict == "differs by -13.1"
    assert spr_cell([our_run(63.65)]).verdict == "differs by +0.0"  # one seed has no error


def test_runs_at_another_scale_say_which_settings_the_paper_has() -> None:
    cell = spr_cell([our_run(40.0, epochs=5, per_class=500)])
    assert cell.verdict.startswith("other scale: the paper has per_class = 0, epochs = 25")
    (text,) = cells_text([cell])
    assert text[:4] == ("cifar10-spr, symmetric:0.4", "aer-abs", "63.6", "40.0")


def test_the_runs_that_are_nearest_to_the_paper_are_taken() -> None:
    assert spr_cell([our_run(40.0, epochs=5), our_run(60.0)]).ours == spr_cell([our_run(60.0)]).ours
