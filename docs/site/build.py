"""Build the documentation site: `python docs/site/build.py`, or `make docs`.

The Markdown pages of the checkout are copied to build/pages with the folders they are in, so that the links
between them hold on a code host and on the site alike. zensical turns them into build/site.
"""

import argparse
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

ROOT = Path(__file__).parent.parent.parent
PAGES = ("*.md", "LICENSE", "CITATION.cff", "docs/**/*.md", "bench/*.md", "examples/*.md")
FILES = ("docs/**/*.svg", "docs/**/*.png", "docs/site/*.css", "examples/*.py", "bench/*.py")


def build(target: Path) -> None:
    """Build the site in target/site; raise CalledProcessError if there are warnings."""
    pages = target / "pages"
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted(path for pattern in (*PAGES, *FILES) for path in ROOT.glob(pattern)):
        copy = pages / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    with (pages / "examples" / "README.md").open("a") as page:
        page.write(sources(sorted((ROOT / "examples").glob("*.py"))))
    config = tomllib.loads((ROOT / "docs" / "site" / "zensical.toml").read_text())
    project = config["project"] | {"docs_dir": "pages", "site_dir": "site"}
    project["nav"] = existing(project["nav"], pages)
    (target / "zensical.toml").write_text(tomli_w.dumps({"project": project}))
    program = Path(sys.executable).parent / "zensical"
    subprocess.run([program, "build", "--strict", "--clean"], cwd=target, check=True)


def sources(files: list[Path]) -> str:
    """Return the source of each file as a section of a page."""
    return "".join(f"\n## {path.name}\n\n```python\n{path.read_text()}```\n" for path in files)


def existing(entries: list[dict[str, Any]], pages: Path) -> list[dict[str, Any]]:
    """Return the entries of a navigation whose pages exist."""
    found = []
    for entry in entries:
        ((title, value),) = entry.items()
        if isinstance(value, list):
            found.append({title: existing(value, pages)})
        elif (pages / value).exists():
            found.append(entry)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, default=ROOT / "build")
    try:
        build(parser.parse_args().target)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
