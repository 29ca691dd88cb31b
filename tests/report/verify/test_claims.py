from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from run_folders import finished

from remnant.report.runs import FinishedRun
from remnant.report.verify.claims import CLAIMS, Verdict, verdicts


def runs(
    method: str,
    accuracies: Sequence[float],
    noise: str = "symmetric:0.4",
    **settings: Any,  # noqa: ANN401
) -> list[FinishedRun]:
    name, _, rate = noise.partition(":")
    made = [
        finished(method, s, a, **settings | {"noise": {"name": name, "rate": rate}})
        for s, a in enumerate(accuracies)
    ]
    return [replace(run, result={**run.result, "noise": noise}) for run in made]


def verdict(found: Sequence[FinishedRun], words: str) -> Verdict:
    (one,) = (verdict for verdict in verdicts(found) if words in verdict.claim)
    return one


def test_there_is_a_verdict_for_every_claim_and_without_runs_none_is_testable() -> None:
    assert [v.verdict for v in verdicts([finished()])] == ["not testable"] * len(CLAIMS)


def test_the_ablation_is_shown_if_each_component_adds_accuracy_at_60_percent() -> None:
    rows = {
        "er-ace": 10.0,
        "er-ace+alpha": 20.0,
        "abs": 22.0,
        "aer": 24.0,
        "aer-abs": 26.0,
        "aer-abs-noace": 21.0,
    }
    table = [run for m, a in rows.items() for run in runs(m, [a, a + 1, a + 1.1], "symmetric:0.6")]
    assert verdict(table, "each component").verdict == "shown"
    worse = [run for run in table if run.method != "aer-abs"] + runs(
        "aer-abs", [1.0, 2.0, 3.0], "symmetric:0.6"
    )
    assert verdict(worse, "each component").verdict == "partly shown"
    other = [run for m, a in rows.items() for run in runs(m, [a, a + 1])]
    assert verdict(other, "each component").verdict == "not testable"  # 40 % noise only


def test_the_gain_of_consolidation_is_compared_between_noise_rates() -> None:
    low = [*runs("aer-abs", [50.0, 60.0]), *runs("aer-abs+consolidation", [51.0, 61.2])]
    high = [
        *runs("aer-abs", [30.0, 40.0], "symmetric:0.6"),
        *runs("aer-abs+consolidation", [39.0, 49.2], "symmetric:0.6"),
    ]
    found = verdict([*low, *high], "helps most")
    assert (found.verdict, found.findings[0].text) == ("shown", "gain +9.1 ± 0.1 at 60 %, +1.1 ± 0.1 at 40 %")
    assert verdict(low, "helps most").verdict == "not testable"


def test_separation_is_compared_within_each_run() -> None:
    def separated(learn: float, forget: float, seed: int) -> FinishedRun:
        run = finished("aer-abs", seed)
        epochs = [{"phase": "learn", "auroc": learn}, {"phase": "forget", "auroc": forget}]
        return replace(run, result={**run.result, "separation": epochs})

    better = [separated(0.5, 0.6, 0), separated(0.7, 0.82, 1)]
    found = verdict(better, "separation")
    assert (found.verdict, found.findings[0].text) == ("shown", "AUROC +11.0 ± 1.0 points after forgetting")
    assert verdict([separated(0.6, 0.5, 0), separated(0.8, 0.7, 1)], "separation").verdict == "not shown"


def test_alpha_is_flat_if_its_best_and_worst_values_above_a_half_do_not_differ() -> None:
    def at(alpha: float, *accuracies: float) -> list[FinishedRun]:
        name = "aer-abs" if alpha == 0.75 else "aer-abs-custom"
        return runs(name, accuracies, insertion={"name": "lowest-loss", "alpha": alpha})

    flat = [*at(0.0, 10.0, 11.0), *at(0.5, 30.0, 34.0), *at(0.75, 34.0, 31.0)]
    assert verdict(flat, "flat").verdict == "shown"
    rising = [*at(0.0, 10.0, 11.0), *at(0.5, 30.0, 34.0), *at(0.75, 60.0, 64.1)]
    assert verdict(rising, "flat").verdict == "not shown"


def test_cnll_with_one_epoch_is_compared_with_more_epochs() -> None:
    found = verdict(
        [*runs("cnll", [50.0, 61.0], epochs=1), *runs("cnll", [40.0, 50.0], epochs=20)], "CNLL worsens"
    )
    assert (found.verdict, found.findings[0].text) == ("shown", "cnll: 1 epoch - 20 epochs +10.5 ± 0.5")


def test_cnll_is_not_compared_between_datasets() -> None:
    once, often = runs("cnll", [50.0, 61.0], epochs=1), runs("cnll", [40.0, 50.0], epochs=20)
    other = [replace(run, result={**run.result, "data": "fashion"}) for run in often]
    assert verdict([*once, *other], "CNLL worsens").verdict == "not testable"
    renamed = [replace(run, config={**run.config, "name": "digits-long"}) for run in often]
    assert verdict([*once, *renamed], "CNLL worsens").verdict == "shown"
