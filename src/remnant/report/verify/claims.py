"""The claims of the paper, each tested on the results of runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from remnant.report.runs import FinishedRun
from remnant.report.tables.benchmarks import is_same_data
from remnant.report.tables.formats import value_text
from remnant.report.tables.grouping import METRICS, Metric, RunGroup, Summary, paired_difference, summary
from remnant.report.tables.stored import condensed
from remnant.report.verify.comparisons import Finding, Results, higher, is_clear, lower, scaled

FAA, FF, PURITY, SECONDS = (METRICS[name] for name in ("faa", "ff", "purity", "seconds"))
DIVERSITY = Metric("diversity", "diversity", ("buffer", "diversity"))
LOSS_NOISY = Metric("loss_noisy", "loss of noisy samples", ("by_epoch", "loss_noisy"))
AFTER_FORGETTING = Metric("forget", "separation after forgetting", ("by_epoch", "separation", "forget"))
AFTER_LEARNING = Metric("learn", "separation after learning", ("by_epoch", "separation", "learn"))
BASELINES = (
    "er", "er+coteaching", "er+dividemix", "gdumb", "gdumb+coteaching", "gdumb+dividemix", "puridiver",
    "puridiver.me",
)  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, with the comparisons that test it."""

    text: str
    findings: Callable[[Results], Iterator[Finding]]
    needs: str = "runs of these methods"  # what is missing if there are no findings


def ablation(results: Results) -> Iterator[Finding]:
    """Compare each row of Table 3 with the one it extends, with 60 % noise."""
    steps = [("er-ace+alpha", "er-ace"), ("aer", "er-ace+alpha"), ("abs", "er-ace+alpha")]
    steps += [("aer-abs", "aer"), ("aer-abs", "abs"), ("aer-abs", "aer-abs-noace")]
    for better, worse in steps:
        yield from (f for f in higher(FAA, better, worse)(results) if "symmetric:0.6" in f.benchmark)


def consolidation(results: Results) -> Iterator[Finding]:
    """Compare the gain of consolidation with 60 % noise with that with 40 %."""
    gains: dict[str, dict[str, Summary]] = {}
    for benchmark, a, b in results.pairs("aer-abs+consolidation", "aer-abs"):
        gain = paired_difference(a, b, FAA)
        for noise in ("symmetric:0.4", "symmetric:0.6"):
            if gain is not None and noise in benchmark:
                gains.setdefault(benchmark.replace(noise, "symmetric"), {})[noise] = gain
    for benchmark, (low, high) in ((b, _both(g)) for b, g in gains.items() if len(g) == 2):
        error = ((low.error or 0) ** 2 + (high.error or 0) ** 2) ** 0.5
        difference = Summary(high.mean - low.mean, error or None, min(low.count, high.count))
        text = f"gain {value_text(high, signed=True)} at 60 %, {value_text(low, signed=True)} at 40 %"
        yield Finding(benchmark, is_clear(difference), text)


def _both(gains: Mapping[str, Summary]) -> tuple[Summary, Summary]:
    return gains["symmetric:0.4"], gains["symmetric:0.6"]


def separation(results: Results) -> Iterator[Finding]:
    """Compare the separation after forgetting epochs with that after learning epochs of the same runs."""
    for benchmark in results.benchmarks():
        group = results.group(benchmark, "aer-abs")
        runs = [] if group is None else list(group.runs.values())
        pairs = [(AFTER_FORGETTING.of(run), AFTER_LEARNING.of(run)) for run in runs]
        gain = scaled(summary([a - b for a, b in pairs if a is not None and b is not None]), 100)
        if gain is not None:
            text = f"AUROC {value_text(gain, signed=True)} points after forgetting"
            yield Finding(benchmark, is_clear(gain), text)


def alpha(results: Results) -> Iterator[Finding]:
    """Compare the accuracies with alpha of at least 0.5 with each other, and with alpha = 0."""
    for benchmark in results.benchmarks():
        variants = results.variants(benchmark, "aer-abs")
        rates = {_setting(group, "lr") for group in variants if _alpha(group) == 0.0}
        groups = {_alpha(group): group for group in variants if {_setting(group, "lr")} == rates}
        high = {value: group for value, group in groups.items() if value is not None and value >= 0.5}
        if len(high) < 2 or 0.0 not in groups:
            continue
        means = {value: accuracy(group) for value, group in high.items()}
        texts = [f"{value:g}: {value_text(mean)}" for value, mean in sorted(means.items())]
        gains = [paired_difference(group, groups[0.0], FAA) for group in high.values()]
        ordered = sorted((m.mean, v) for v, m in means.items() if m is not None)
        (_, worst), (_, best) = ordered[0], ordered[-1]
        is_flat = not is_clear(paired_difference(high[best], high[worst], FAA))
        yield Finding(
            benchmark, is_flat and all(map(is_clear, gains)), f"accuracy at alpha {', '.join(texts)}"
        )


def accuracy(group: RunGroup) -> Summary | None:
    """Return the accuracy of a group of runs."""
    return summary([value for run in group.runs.values() if (value := FAA.of(run)) is not None])


def _alpha(group: RunGroup) -> float | None:
    value = next(iter(group.runs.values())).settings().get("insertion.alpha")
    return None if value is None else float(value)


def cnll_epochs(results: Results) -> Iterator[Finding]:
    """Compare CNLL with one epoch per task with CNLL with more."""
    for method in ("cnll", "cnll.unlimited"):
        groups = [g for b in results.benchmarks() if (g := results.group(b, method)) is not None]
        once = [group for group in groups if _setting(group, "epochs") == 1]
        for one in once:
            for many in (group for group in groups if _is_same_task(one, group)):
                epochs = _setting(many, "epochs")
                gain = paired_difference(one, many, FAA) if epochs != 1 else None
                if gain is not None:
                    text = f"{method}: 1 epoch - {epochs} epochs {value_text(gain, signed=True)}"
                    yield Finding(one.benchmark, is_clear(gain), text)


def _is_same_task(a: RunGroup, b: RunGroup) -> bool:
    """Return whether two groups have the same data and noise; their recipes may differ."""
    first, other = next(iter(a.runs.values())), next(iter(b.runs.values()))
    is_same = bool(first.config.get("validation")) == bool(other.config.get("validation"))
    return is_same and first.noise == other.noise and is_same_data(first, other)


def _setting(group: RunGroup, key: str) -> Any:  # noqa: ANN401
    return next(iter(group.runs.values())).settings().get(key)


def _nothing(results: Results) -> Iterator[Finding]:
    return iter(())


CLAIMS = (
    Claim("each component adds accuracy at 60 % noise (Table 3)", ablation, "the ablation with 60 % noise"),
    Claim("aer-abs is above all baselines (Table 1)", higher(FAA, "aer-abs", *BASELINES)),
    Claim(
        "with consolidation, it is above all baselines (Table 1)",
        higher(FAA, "aer-abs+consolidation", *BASELINES),
    ),
    Claim("consolidation helps most at high noise (Table 1)", consolidation, "both methods at 40 and 60 %"),
    Claim("separation is higher after forgetting (Figure 1)", separation),
    Claim(
        "alternate replay slows the learning of noise (Figure A)",
        higher(LOSS_NOISY, "aer", "er-ace+alpha", "er-ace"),
    ),
    Claim("alpha of at least 50 % is a flat optimum (Table A)", alpha, "a sweep over alpha"),
    Claim(
        "the buffer is purer than those of LASS and PuriDivER.ME (Figure 4)",
        higher(PURITY, "aer-abs", "aer-lass", "puridiver.me"),
    ),
    Claim(
        "the buffer of abs is more diverse (Figure 4)",
        higher(DIVERSITY, "aer-abs", "aer-lass", "puridiver.me"),
        "run folders with joint training without noise",
    ),
    Claim("DER++ gains from the components (Figure 3)", higher(FAA, "der++-aer-abs", "der++")),
    Claim("it takes less time than PuriDivER.ME (Table B)", lower(SECONDS, "aer-abs", "puridiver.me")),
    Claim("CNLL worsens with more epochs (Table 2)", cnll_epochs, "CNLL with one and with more epochs"),
    Claim("SPR and CNLL are below it (Table 2)", higher(FAA, "aer-abs", "spr", "cnll", "cnll.unlimited")),
    Claim("it forgets less than the baselines (Table C)", lower(FF, "aer-abs", *BASELINES)),
    Claim("Food-101N (Table 4)", _nothing, "its images"),
    Claim("NTU-60 (Table 1)", _nothing, "its skeletons"),
)


@dataclass(frozen=True)
class Verdict:
    """Whether a claim is shown by some results: `shown`, `partly shown`, `not shown` or `not testable`."""

    claim: str
    verdict: str
    findings: tuple[Finding, ...]
    needs: str


def verdicts(runs: Sequence[FinishedRun]) -> list[Verdict]:
    """Test each claim of the paper on all benchmarks for which there are results."""
    results = Results([replace(run, result=condensed(run.result)) for run in runs])
    found = []
    for claim in CLAIMS:
        findings = tuple(claim.findings(results))
        held = sum(finding.holds for finding in findings)
        verdict = "shown" if held == len(findings) else "partly shown" if held else "not shown"
        found.append(Verdict(claim.text, verdict if findings else "not testable", findings, claim.needs))
    return found
