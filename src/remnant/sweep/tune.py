"""Selection of hyperparameters with Optuna, on a validation split of the noisy training samples.

The test split is not used. Trials are kept in a journal file, so that a search can be interrupted, resumed,
and shared by several processes.
"""

import itertools
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from remnant.config import Config
from remnant.config.checks import unused_settings
from remnant.config.components import has_setting, short
from remnant.config.recipe import absolute_name, data_as_setting, nested
from remnant.config.registries import OF_METHOD, REGISTRIES
from remnant.config.schema import NEWER
from remnant.errors import Interrupted, RemnantError
from remnant.experiment.metrics import mean
from remnant.experiment.result import read_result
from remnant.settings import literal
from remnant.sweep.display import Show
from remnant.sweep.grid import comparison
from remnant.sweep.scheduler import SweepOptions, run_cells
from remnant.sweep.status import Cell

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import Trial

VALIDATION = 0.2  # fraction of the noisy training samples
# The values that occur in the paper's lists of hyperparameters.
PAPER_SPACE: dict[str, Sequence[float]] = {
    "lr": (0.001, 0.03, 0.1, 0.3),
    "consolidation.lr": (0.01, 0.03, 0.05, 0.1),
}


@dataclass(frozen=True)
class LogRange:
    """All numbers between two positive ones, on a logarithmic scale."""

    low: float
    high: float


Space = Mapping[str, Sequence[Any] | LogRange]


@dataclass(frozen=True)
class Search:
    """What is tuned: a recipe with settings, for several methods, over seeds."""

    recipe: str | None
    methods: Sequence[str]
    seeds: Sequence[int]
    settings: Mapping[str, Any]
    space: Space
    trials: int = 20  # of each method, if the space has ranges

    def configs(self, method: str, chosen: Mapping[str, Any]) -> list[Config]:
        """Return the runs of a trial, which are evaluated on noisy validation samples."""
        settings = {"validation": VALIDATION, **self.settings, **chosen}
        return comparison(self.recipe, [method], self.seeds, settings)

    def space_of(self, method: str) -> dict[str, Sequence[Any] | LogRange]:
        """Return the part of the space that a method uses."""
        (config,) = comparison(self.recipe, [method], [0], self.settings)
        table, unused = NEWER | config.table(), unused_settings(config)
        return {
            key: values
            for key, values in self.space.items()
            if has_setting(table, key) and key.partition(".")[0] not in unused
        }


@dataclass(frozen=True)
class TunedChoice:
    """The best settings of a method, with their accuracy on the validation split and the trials."""

    settings: Mapping[str, Any]
    accuracy: float
    trials: Sequence[tuple[Mapping[str, Any], float]]  # settings and accuracy of each


def tune(search: Search, journal: Path, options: SweepOptions, show: Show) -> dict[str, TunedChoice]:
    """Return the best settings of each method; trials that the journal has already are not repeated."""
    studies = {method: _study(search, method, journal) for method in search.methods}
    while asked := _ask(search, studies, options.resources.jobs):
        configs = {c.digest(): c for _, method, trial in asked for c in search.configs(method, trial.params)}
        cells = {cell.key: cell for cell in run_cells(list(configs.values()), options, show)}
        if any(cell.state == "stopped" for cell in cells.values()):
            raise Interrupted("stopped. Run the same command again to resume.")
        for study, method, trial in asked:
            _tell(study, trial, [cells[c.digest()] for c in search.configs(method, trial.params)])
    return {method: _choice(method, study) for method, study in studies.items()}


def _study(search: Search, method: str, journal: Path) -> "Study":
    try:
        import optuna
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        raise RemnantError("tune: expected the package optuna. Install remnant[tune].") from error
    optuna.logging.set_verbosity(logging.WARNING)
    space = search.space_of(method)
    if not space:
        raise RemnantError(f"tune: expected settings that {method} has, got {', '.join(search.space)}.")
    sampler = optuna.samplers.TPESampler(seed=0, constant_liar=True)
    journal.parent.mkdir(parents=True, exist_ok=True)
    storage = optuna.storages.JournalStorage(JournalFileBackend(os.fspath(journal)))
    # Other settings, seeds or values are another search.
    digest = search.configs(method, {})[0].digest()[:12]
    seeds = ",".join(map(str, search.seeds))
    name = f"{method} {digest} seeds {seeds} {sorted((key, str(v)) for key, v in space.items())}"
    return optuna.create_study(
        storage=storage, study_name=name, sampler=sampler, direction="maximize", load_if_exists=True
    )


def _ask(search: Search, studies: Mapping[str, "Study"], jobs: int) -> list[tuple["Study", str, "Trial"]]:
    """Return the next trials of all methods: all that are left of a grid, or as many as run at once."""
    asked = []
    for method, study in studies.items():
        finished = [trial.params for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]
        space = search.space_of(method)
        points = _points(space)
        untried = [point for point in points or [] if point not in finished]
        for point in untried:
            study.enqueue_trial(point)
        count = min(jobs, search.trials - len(finished)) if points is None else len(untried)
        for _ in range(count):
            trial = study.ask()
            for key, values in space.items():
                _suggest(trial, key, values)
            asked.append((study, method, trial))
    return asked


def _points(space: Space) -> list[dict[str, Any]] | None:
    """Return all points of a grid; None if the space has ranges."""
    lists = [values for values in space.values() if not isinstance(values, LogRange)]
    if len(lists) < len(space):
        return None
    return [dict(zip(space, point, strict=True)) for point in itertools.product(*lists)]


def _suggest(trial: "Trial", key: str, values: Sequence[Any] | LogRange) -> None:
    if isinstance(values, LogRange):
        trial.suggest_float(key, values.low, values.high, log=True)
    else:
        trial.suggest_categorical(key, list(values))


def _tell(study: "Study", trial: "Trial", cells: Sequence[Cell]) -> None:
    """Record the mean accuracy of a trial; one with a failed run, such as a diverged one, has failed."""
    from optuna.trial import TrialState

    folders = [cell.folder for cell in cells if cell.state == "finished" and cell.folder is not None]
    if len(folders) < len(cells):
        study.tell(trial, state=TrialState.FAIL)
    else:
        study.tell(trial, mean([float(read_result(folder)["faa"]) for folder in folders]))


def _choice(method: str, study: "Study") -> TunedChoice:
    trials = [(trial.params, trial.value) for trial in study.trials if trial.value is not None]
    if not trials:
        raise RemnantError(f"tune: all runs of {method} failed. Choose other values with --space.")
    return TunedChoice(study.best_params, study.best_value, trials)


def tuned_recipe(search: Search, choices: Mapping[str, TunedChoice]) -> str:
    """Return a recipe with the chosen settings of each method for the noise they were chosen with."""
    configs = comparison(search.recipe, search.methods, [0], search.settings)
    noise = short(REGISTRIES["noise"], configs[0].noise)
    table = {**_below(search, configs), "name": f"{configs[0].name}-tuned"}
    own = {method: _of_method(search, config) for method, config in zip(search.methods, configs, strict=True)}
    table["for"] = [
        {"method": method, "noise": noise, **nested({**own[method], **choice.settings})}
        for method, choice in choices.items()
    ]
    lines = [
        f"# {method}: {choice.accuracy:.2f} % on the validation split, best of {len(choice.trials)} trials"
        for method, choice in choices.items()
    ]
    seeds = ", ".join(map(str, search.seeds))
    head = f"# Chosen by `remnant tune` on a fifth of the noisy training samples, seeds {seeds}."
    return "\n".join([head, *lines, "", tomli_w.dumps(table)])


def _below(search: Search, configs: Sequence[Config]) -> dict[str, Any]:
    """Return what the tuned settings are based on: the recipe of a search with its settings.

    Without a recipe, the settings of a run follow from its data, and are written completely.
    """
    recipe, settings = data_as_setting(search.recipe, search.settings)
    if recipe is not None or "data" not in settings:
        return {"base": absolute_name(recipe or "digits"), **nested(settings)}
    complete = {key: value for config in configs for key, value in config.table().items()}
    return {key: value for key, value in complete.items() if key not in ("method", "seed", *OF_METHOD)}


def _of_method(search: Search, config: Config) -> dict[str, Any]:
    """Return the settings of a search for the components of a method, which a recipe has for each method."""
    table, chosen = config.table(), search.settings
    return {k: v for k, v in chosen.items() if k.partition(".")[0] in OF_METHOD and has_setting(table, k)}


def parse_space(texts: Sequence[str]) -> Space:
    """Return a space given as `key=value,value` or `key=low:high`; that of the paper if none is given.

    >>> parse_space(["lr=0.03,0.1", "consolidation.lr=0.001:0.1"])
    {'lr': [0.03, 0.1], 'consolidation.lr': LogRange(low=0.001, high=0.1)}
    """
    space: dict[str, Sequence[Any] | LogRange] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        low, colon, high = (literal(part.strip()) for part in values.partition(":"))
        is_range = isinstance(low, int | float) and isinstance(high, int | float) and colon
        if not equals or not values or (is_range and not 0 < low < high):
            raise RemnantError(f"--space: expected KEY=VALUE,VALUE or KEY=LOW:HIGH, got {text!r}.")
        listed = [literal(part.strip()) for part in values.split(",")]
        space[key.strip()] = LogRange(float(low), float(high)) if is_range else listed
    return space or PAPER_SPACE
