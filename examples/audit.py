"""Find doubtful labels in a folder of photos, write a page to judge them in, and apply the decisions.

python examples/audit.py photos                           # then open the page, and download the decisions
python examples/audit.py photos decisions.csv             # writes labels.csv
remnant audit folder:photos                               # the same from the command line
remnant audit --apply decisions.csv RUN -o labels.csv
"""

import sys
from pathlib import Path

import remnant
from remnant.report.audit.decisions import read_decisions
from remnant.report.audit.labels import write_labels
from remnant.report.audit.page import write_audit
from remnant.report.audit.samples import read_audited


def audit(photos: str, **settings: object) -> Path:
    """Train on all photos at once, write the page, and return its path."""
    everything = {"tasks": 1, "data.test_share": 0}  # no photo is held out
    folder = remnant.run(f"folder:{photos}", **everything, **settings)  # does nothing if it is finished
    page = folder / "audit.html"
    write_audit(page, read_audited(folder, None))
    return page


def correct(page: Path, decisions: str, labels: str = "labels.csv") -> int:
    """Write the labels with the decisions, and return the number of changed ones."""
    run = read_audited(page.parent, None)
    found = read_decisions(Path(decisions), run)
    write_labels(Path(labels), run, found.labels, None, found.dropped)
    return len(found.labels)


if __name__ == "__main__":
    page = audit(sys.argv[1])
    print(page if len(sys.argv) < 3 else f"{correct(page, sys.argv[2])} labels changed, in labels.csv")
