"""Write the software bill of materials of the test environment: `python docs/sbom.py`.

The packages of constraints.txt have to be installed. docs/sbom.json lists them with their licences in the
format CycloneDX 1.6. With `--report FILE`, the report of `pip install --dry-run --report FILE`, their hashes
are written to constraints-hashes.txt.
"""

import argparse
import json
import re
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FORMAT = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
HEAD = """\
# Hashes of the files that pip installs on Linux x86_64 with Python 3.11, for the versions of constraints.txt:
#     pip install --require-hashes --no-deps -r constraints-hashes.txt
# torch is not listed: its file depends on the hardware. Written by docs/sbom.py.
"""


def pinned() -> dict[str, str]:
    """Return the versions in constraints.txt by name."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def licence(name: str) -> str:
    """Return the licence that a package states: as an expression, a short text, or a classifier."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return "not installed"
    text = about.get("License-Expression") or about.get("License") or ""
    named = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier", []) if c.startswith("License ::")]
    return text if text and "\n" not in text and len(text) < 200 else " AND ".join(named) or "not stated"


def components() -> list[dict[str, Any]]:
    """Return all packages as components of CycloneDX."""
    found = []
    for name, version in pinned().items():
        plain = re.sub(r"[-_.]+", "-", name).lower()
        found.append({
            "type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{plain}@{version}",
            "licenses": [{"license": {"name": licence(name)}}],
        })  # fmt: skip
    return found


def hashes(report: Path) -> str:
    """Return the lines of a requirements file with the hashes in a report of pip."""
    items = json.loads(report.read_text())["install"]
    lines = []
    for item in sorted(items, key=lambda item: item["metadata"]["name"].lower()):
        about, digest = item["metadata"], item["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{about['name']}=={about['version']} --hash=sha256:{digest}")
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    """Write the files, and print the packages of each licence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    parts = components()
    (ROOT / "docs" / "sbom.json").write_text(json.dumps(FORMAT | {"components": parts}, indent=1) + "\n")
    if options.report:
        (ROOT / "constraints-hashes.txt").write_text(hashes(options.report))
    by_licence = defaultdict(list)
    for part in parts:
        by_licence[part["licenses"][0]["license"]["name"]].append(part["name"])
    for name, packages in sorted(by_licence.items(), key=lambda item: -len(item[1])):
        print(f"{len(packages):4} {name}: {', '.join(packages)}")


if __name__ == "__main__":
    main()
