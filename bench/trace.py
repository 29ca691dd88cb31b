"""Compare trace with the better of the paper's methods with training on the buffer, on each benchmark.

Of the runs of trace, those with the fewest epochs are used: they take at most as many passes as the rivals.
The better rival of a benchmark is the one with the higher mean accuracy. Differences are paired by seed; the
test over the differences of all noisy benchmarks is Wilcoxon's signed-rank test, one-sided.

    python bench/trace.py results/desk/digits-trace.json results/desk/cifar10-features-trace.json
"""

import argparse
from pathlib import Path
from statistics import fmean

from scipy.stats import wilcoxon

from remnant.report.tables import METRICS, load_runs
from remnant.report.tables.formats import value_text
from remnant.report.tables.grouping import RunGroup, group_runs, paired_difference, summary_of

FAA = METRICS["faa"]
RIVALS = ("aer-abs+fit", "aer-abs+consolidation")


def epochs(group: RunGroup) -> int:
    return int(next(iter(group.runs.values())).settings()["epochs"])


def accuracy(group: RunGroup) -> float:
    found = summary_of(group, FAA)
    assert found is not None
    return found.mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    args = parser.parse_args()
    benchmarks: dict[str, list[RunGroup]] = {}
    for group in group_runs(load_runs(args.results)):
        benchmarks.setdefault(group.benchmark, []).append(group)
    print("| benchmark | trace | better rival | accuracy | difference | to er-ace+fit |")
    print("|---|---|---|---|---|---|")
    gains = []
    for benchmark, groups in benchmarks.items():
        ours = min((group for group in groups if group.method == "trace"), key=epochs)
        rival = max((group for group in groups if group.method in RIVALS), key=accuracy)
        plain = next((group for group in groups if group.method == "er-ace+fit"), None)
        gain, to_plain = (other and paired_difference(ours, other, FAA) for other in (rival, plain))
        assert gain is not None
        if not benchmark.endswith("none"):
            gains.append(gain.mean)
        values = [value_text(summary_of(group, FAA)) for group in (ours, rival)]
        differences = [value_text(gain, signed=True), value_text(to_plain, signed=True)]
        cells = [benchmark, values[0], rival.method, values[1], *differences]
        print(f"| {' | '.join(cells)} |")
    above = sum(gain > 0 for gain in gains)
    p = wilcoxon(gains, alternative="greater").pvalue
    count = f"above in {above} of {len(gains)} noisy benchmarks"
    print(f"\nmean difference {fmean(gains):+.1f}; {count}; p = {p:.3f}")


if __name__ == "__main__":
    main()
