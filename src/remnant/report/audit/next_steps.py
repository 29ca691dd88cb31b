"""The summary of a run on a user's own images, or of an audit: its results, its files and what to do next."""

import shlex
from pathlib import Path

from rich.console import Console

from remnant.errors import printable
from remnant.experiment.result import read_result
from remnant.report.summary import files, program, show_metrics


def show_results(
    folder: Path, data: str | None = None, page: Path | None = None, data_dir: Path | None = None
) -> None:
    """Print the results of a run, where its files are, and what to do next.

    `data` is what was typed if it names own data, `page` the page of an audit, and `data_dir` the data
    folder if one was given.
    """
    console, result = Console(), read_result(folder)
    show_metrics(console, result)
    lines = ["", with_page(files(folder, result), folder, page), "", "  Try next:"]
    for about, command in next_steps(folder, data, page, data_dir).items():
        lines += [f"    # {printable(about)}", f"    {printable(command)}"]
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def with_page(listed: str, folder: Path, page: Path | None) -> str:
    """Return the list of the files in a run folder with the page of an audit, if it is there."""
    if page is None or page.parent.resolve() != folder.resolve():
        return listed
    first, *rows = listed.split("\n")
    width = len(rows[0]) - len(rows[0].lstrip().split(maxsplit=1)[1])  # up to the description
    rows = [row for row in rows if row.split()[0] != page.name]
    return "\n".join([first, f"{f'    {page.name}':{width}s}doubtful labels, to judge in the browser", *rows])


def next_steps(folder: Path, data: str | None, page: Path | None, data_dir: Path | None) -> dict[str, str]:
    """Return commands to try next, by what they do."""
    run = shlex.quote(str(folder))
    where = "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"
    commands = {}
    if page is not None:
        about = "judge labels in the page below, in a browser, and apply the decisions"
        commands[about] = f"audit --apply decisions.csv {run} -o labels.csv{where}"
    elif data is not None:
        commands["find wrong labels, with all classes in one task"] = f"audit {shlex.quote(data)}{where}"
    commands["predict the labels of other images"] = f"predict {run} more-photos"
    commands["learn further images; classes may be new"] = f"learn {run} folder:more-photos -o model"
    commands["use the network elsewhere"] = f"export {run} -o model.onnx"
    return {about: f"{program()} {command}" for about, command in commands.items()}
