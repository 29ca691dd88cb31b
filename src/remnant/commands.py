"""What the verbs `run` and `data noise` do, once the words of the command line are known."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from remnant import recipe, runner, summary
from remnant.component import short
from remnant.config import Config, resolve
from remnant.data import Dataset, data_dir, entry
from remnant.data import names as data_names
from remnant.errors import RemnantError
from remnant.estimate import estimate
from remnant.experiment import make_the_data, make_the_stream, what_was_skipped
from remnant.noise import NOISES
from remnant.process import compute
from remnant.progress import duration, screen
from remnant.published import published
from remnant.transition import given_table, headline, picture, table, transitions, wrong_of


@dataclass(frozen=True)
class Request:
    """The words of the command line."""

    words: Sequence[str]  # a recipe, and key=value
    changes: Sequence[str]  # key=value
    out: Path
    data_dir: Path | None
    save_every: float
    force: bool
    strict: bool

    def config(self) -> Config:
        """Return the config that is asked for."""
        names = [word for word in self.words if "=" not in word or recipe.find(word)]
        if len(names) > 1:
            raise RemnantError(f"expected one recipe, got {', '.join(names)}.")
        changes = [*self.changes, *(word for word in self.words if word not in names)]
        keys = once(changes)
        table = recipe.read(names[0] if names else "digits")
        settings = recipe.apply(table, changes)
        if not (names or "name" in keys) and settings["data"] in data_names():
            settings["name"] = settings["data"]  # no recipe is meant: the data set names the run
        return resolve(settings)

    def options(self) -> runner.Options:
        """Return what does not change the result."""
        folder = data_dir(self.data_dir)
        return runner.Options(self.out, folder, self.force, self.save_every, self.strict)


def once(changes: Sequence[str]) -> list[str]:
    """Return the keys of settings; refuse one that is set twice."""
    keys = [change.partition("=")[0].strip() for change in changes]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise RemnantError(f"expected each setting once, got {', '.join(twice)} twice.")
    return keys


def run(request: Request, quiet: bool) -> None:
    """Run an experiment and print its summary; the last line is its folder."""
    folder = runner.run(request.config(), request.options(), screen(quiet))
    if not quiet:
        summary.show(Console(), folder, request.data_dir)
    print(folder)


def plan(request: Request) -> None:
    """Print what a run would do, with an estimate of its time and memory."""
    config, options = request.config(), request.options()
    with compute(config.threads):
        stream = make_the_stream(config, options.data_dir)
        skipped = what_was_skipped(stream, options.strict)
        expected = estimate(config, stream)
    rows = [len(task) for task in stream.tasks]
    wrong = float((stream.truth != stream.observed).double().mean()) * 100
    folder = options.out / config.run_id(stream.fingerprint)
    state = "finished" if runner.is_finished(folder) else "to do"
    print(config.toml())
    print(f"# data      {sum(rows):,} training rows in {len(rows)} task(s): {rows}")
    for line in skipped:
        print(f"# data      {line}")
    print(f"# noise     {short(NOISES, config.noise)}: {wrong:.1f} % of the labels are wrong")
    steps = ", ".join(f"{name} {work.steps:,}" for name, work in expected.plan.items())
    print(f"# steps     {steps}")
    print(f"# time      about {duration(expected.seconds)} on {config.threads} thread(s)")
    print(f"# memory    about {expected.megabytes:,.0f} MB")
    for _, value, meaning in summary.paper(published(config)):
        print(f"# paper     {value} {meaning}")
    print(f"# folder    {folder} ({state})")


def show_noise(data: str, changes: Sequence[str], folder: Path | None, plot: Path | None) -> None:
    """Print what noise makes of the labels of a data set, as a run would see them; draw it if asked."""
    once([f"data={data}", *changes])
    if plot and plot.suffix != ".svg":
        raise RemnantError(f"{plot}: expected a file that ends with .svg, as the picture is one.")
    net = {} if entry(data).spec.are_images else {"net": "efficientgcn-b0"}  # which is not used
    config = resolve(recipe.apply({"data": data, "tasks": 1} | net, changes))
    rows, observed = make_the_data(config, data_dir(folder))
    names = rows.spec.classes
    if rows.spec.labels_are_given:
        show_given(rows, plot)
        return
    counts = transitions(rows.y, observed, len(names))
    title = f"{data}, noise {short(NOISES, config.noise)}, seed {config.seed}: {headline(counts)}"
    if plot:
        try:
            plot.write_text(picture(counts, names, title), encoding="utf-8")
        except OSError as error:
            raise RemnantError(
                f"{plot}: expected a file that can be written, found: {error.strerror}; name another"
            ) from error
    print(f"{title}\n\n{table(counts, names)}")
    if plot:
        print(f"\n{plot}")


def show_given(data: Dataset, plot: Path | None) -> None:
    """Print how many of the labels that a data set came with are wrong."""
    if plot:
        raise RemnantError(
            f"{plot}: expected noise that can be drawn, found labels of {data.spec.name} that are known "
            "to be wrong without a right one; leave out --plot to have how many are"
        )
    is_wrong = data.y != data.named
    title = f"{data.spec.name}, noise given: {wrong_of(int(is_wrong.sum()), len(is_wrong))}"
    print(f"{title}\n\n{given_table(data.named, is_wrong, data.spec.classes)}")
