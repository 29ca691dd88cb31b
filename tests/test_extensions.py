"""Components from outside the package: Python files, installed packages, and Python objects."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import Invoke
from conftest import TINY, tiny_data
from run_helpers import StopAt, assert_identical, result
from torch import nn

import remnant
from remnant.config import resolve
from remnant.config.registries import METHOD_NAMES, REGISTRIES
from remnant.errors import Interrupted, RemnantError
from remnant.extensions import describe_object, from_file, is_in_file, with_sources
from remnant.methods.spr import Spr
from remnant.nets.small import SmallNet

SHORT = ["per_class=12", "net=small:4", "epochs=2", "buffer_size=20", "batch=8"]

FILE = '''
from dataclasses import dataclass

import numpy as np

from remnant import LowestLoss, Replay, setting
from remnant.nets.small import SmallNet


@dataclass(frozen=True)
class EveryThird:
    """Learn in every third epoch, and write in the others."""

    period: int = setting(3, "epochs from one learning epoch to the next")

    def __call__(self, epoch, epochs):
        from remnant.methods.epoch_schedule import Phase

        is_last = (epoch + 1) % self.period == 0 or epoch == epochs - 1
        return Phase.LEARN if is_last else Phase.FORGET


@dataclass(frozen=True)
class Shift:
    """Every k-th label is that of the next class."""

    every: int = setting(4, "samples from one noisy label to the next")

    def __call__(self, dataset, rng):
        labels = dataset.y.copy()
        labels[:: self.every] = (labels[:: self.every] + 1) % len(dataset.spec.classes)
        return labels


def tiny(spec):
    """A network of a few weights."""
    return SmallNet(spec.shape[0], len(spec.classes), 4)


MINE = Replay(schedule=EveryThird(), insertion=LowestLoss(0.5), about="a method in a file")
SHIFT = Shift()
NUMBER = 3
'''


def command(*words: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = os.environ | ({} if path is None else {"PYTHONPATH": str(path)}) | {"COLUMNS": "200"}
    run = [sys.executable, "-m", "remnant", *words]
    return subprocess.run(run, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path / "mine.py"


@pytest.fixture
def invoke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Invoke]:
    """Run commands in this process and in the folder of the file, and forget what they load."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    registries = [METHOD_NAMES, *REGISTRIES.values()]
    before = [dict(registry.loaded) for registry in registries]
    yield Invoke(monkeypatch, capsys)
    for registry, loaded in zip(registries, before, strict=True):
        registry.loaded = loaded
    sys.modules.pop("extras", None)


# --- Python files ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_method_in_a_file_runs_and_resumes_from_the_command_line(file: Path, invoke: Invoke) -> None:
    words = ["run", "--method", "./mine.py:MINE", *SHORT, "schedule.period=2"]
    done = command(*words, cwd=file.parent)
    assert done.returncode == 0, done.stderr
    folder = done.stdout.splitlines()[-1]
    assert Path(folder).name.startswith("digits-MINE-custom-symmetric-0.4-s0-")
    assert result(Path(folder))["choices"]["schedule"] == {"name": "method", "period": 2}
    for again in (invoke(*words), invoke("run", folder)):
        assert "this run is already finished" in again.out, again.err
        assert again.out.splitlines()[-1] == folder
    file.write_text(FILE.replace("LowestLoss(0.5)", "LowestLoss(0.75)"))
    changed = invoke(*words)
    assert changed.code == 0, changed.err
    assert changed.out.splitlines()[-1] != folder
    assert "is not resumed" not in changed.out
    other = invoke("run", folder, "-q")
    assert f"{folder} is not resumed: its config.toml, an extension file, the data or" in other.err
    assert other.out.strip() != folder


def test_networks_and_noises_in_a_file_run_with_settings(file: Path, invoke: Invoke) -> None:
    words = ["net=./mine.py:tiny", "--noise", "./mine.py:SHIFT:3", *SHORT[:1], *SHORT[2:]]
    done = invoke("run", "-q", "--method", "er", *words)
    assert done.code == 0, done.err
    folder = Path(done.out.strip())
    assert "-mine.py-SHIFT-3-s0-" in folder.name
    assert result(folder)["noise"].endswith("mine.py:SHIFT:3")
    shown = invoke("data", "noise", "digits", "--noise", "./mine.py:SHIFT")
    assert "25.03 %" in shown.out.splitlines()[0]


def test_a_suffix_can_follow_a_method_in_a_file(file: Path) -> None:
    config = resolve({"method": f"{file}:MINE+fit"})
    assert config.label == "MINE+fit"
    assert config.consolidation.epochs


def with_helper(folder: Path, alpha: float) -> Path:
    """Write a method whose insertion is defined in two files beside it."""
    folder.mkdir(exist_ok=True)
    (folder / "numbers_of_mine.py").write_text(f"ALPHA = {alpha}\n")
    (folder / "helper.py").write_text("from remnant import LowestLoss\nimport numbers_of_mine as n\n"
                                      "INSERTION = LowestLoss(n.ALPHA)\n")  # fmt: skip
    (folder / "m.py").write_text("from helper import INSERTION\nfrom remnant import Replay\n"
                                 "MINE = Replay(insertion=INSERTION)\n")  # fmt: skip
    return folder / "m.py"


def test_a_file_imports_files_beside_it_and_leaves_no_trace(tmp_path: Path) -> None:
    before = list(sys.path), set(sys.modules)
    rates = [
        resolve({"method": f"{with_helper(tmp_path / name, alpha)}:MINE"}).insertion.alpha
        for name, alpha in (("a", 0.25), ("b", 0.5), ("a", 0.125))
    ]
    assert rates == [0.25, 0.5, 0.125]  # each with its own helper, as it is now
    assert sys.path == before[0]
    assert not {"helper", "numbers_of_mine"} & set(sys.modules)


def test_the_files_that_a_file_imports_are_part_of_the_identity(tmp_path: Path) -> None:
    named = {"method": f"{with_helper(tmp_path, 0.25)}:MINE"}
    before = with_sources(named)
    assert with_sources(named) == before
    with_helper(tmp_path, 0.5)
    assert with_sources(named) != before


def test_settings_of_a_method_in_a_file_are_listed(file: Path, invoke: Invoke) -> None:
    done = invoke("list", "settings", "./mine.py:MINE")
    assert done.code == 0, done.err
    assert "schedule.period = 3" in done.out
    assert "epochs from one learning epoch to the next" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "./nowhere.py:MINE"], "expected a Python file, found none at"),
        (["--method", "./mine.py:MIEN"], "expected a method named 'MIEN'; did you mean 'MINE'?"),
        (
            ["--method", "./raises.py:MINE"],
            "failed with ZeroDivisionError: division by zero",
        ),
        (["--method", "./exits.py:MINE"], "failed with SystemExit: no"),
        (["--method", "./generator.py:MINE"], "failed with GeneratorExit: no"),
        (["--method", "./custom.py:MINE"], "failed with Stop: no"),
        (["--noise", "./custom.py:MINE"], "failed with Stop: no"),
        (["--method", "./syntax.py:MINE"], "failed with SyntaxError"),
        (["--method", "./mine.py:NUMBER"], "got 3 without build, plan"),
        (["--method", "./mine.py:Replay"], "got the class Replay: write Replay(...)"),
        (["--method", "./mine.py:EveryThird"], "expected a method, such as Replay(...)"),
        (["net=./mine.py:NUMBER"], "net: expected a name, a table of settings, or an object with __call__"),
        (["net=./mine.py:MINE"], "net: expected a name, a table of settings, or an object with __call__"),
        (["--noise", "./mine.py:NUMBER"], "noise: expected a name, a table of settings, or an object with"),
        (["--noise", "./mine.py:SHIFT:many"], "every expects a whole number, got 'many'"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_message_and_exit_code_2(
    file: Path, invoke: Invoke, words: list[str], message: str
) -> None:
    texts = {"raises": "1 / 0", "exits": "import sys; sys.exit('no')", "syntax": "def def"}
    texts["generator"] = "raise GeneratorExit('no')"
    texts["custom"] = "class Stop(BaseException): ...\nraise Stop('no')"
    for name, text in texts.items():
        (file.parent / f"{name}.py").write_text(text)
    done = invoke("run", *words)
    assert done.code == 2
    assert message in done.err
    assert not (file.parent / "runs").exists()
    # A later run in the same process is not affected.
    assert resolve({"method": "er", "insertion": "lowest-loss"}).label == "er-custom"


def test_ctrl_c_while_a_file_is_loaded_is_not_an_error_of_the_file(file: Path) -> None:
    file.write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        from_file(f"{file}:MINE", "method")


@pytest.mark.parametrize("path", ["~nosuchuser/x", "a" * 5000, "loop"])
def test_a_path_that_cannot_be_resolved_is_an_error(invoke: Invoke, tmp_path: Path, path: str) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")
    done = invoke("run", "--method", f"{path}.py:MINE")
    assert done.code == 2
    assert "expected a path" in done.err or "expected a Python file, found none at" in done.err


@pytest.mark.slow
def test_a_missing_file_is_a_message_of_the_program(tmp_path: Path) -> None:
    done = command("run", "--method", "./x.py:NAME", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "expected a Python file, found none at" in done.stderr


def test_a_file_that_has_changed_is_loaded_again_for_the_next_config(file: Path) -> None:
    given = {"method": f"{file}:MINE", "noise": f"{file}:SHIFT"}
    first = resolve(given)
    assert resolve(given) == first
    file.write_text(FILE.replace("LowestLoss(0.5)", "LowestLoss(0.75)").replace("setting(4,", "setting(5,"))
    assert (first.label, first.insertion.alpha, first.noise.every) == ("MINE", 0.5, 4)  # a run in progress
    second = resolve(given)
    assert (second.label, second.insertion.alpha, second.noise.every) == ("MINE", 0.75, 5)
    file.unlink()
    with pytest.raises(RemnantError, match="expected a Python file, found none at"):
        resolve(given)


def test_an_object_in_a_file_has_a_path_and_a_name(file: Path) -> None:
    assert [is_in_file(text) for text in ("a/b.py:C", "b.py:C:0.5", "b.py", "b.pyc:C", "noise:b.py")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert from_file(f"{file}:NUMBER", "number") == 3


def test_a_config_table_with_sources_depends_on_the_content_and_not_on_the_folder(file: Path) -> None:
    other = file.parent / "other"
    other.mkdir()
    shutil.copy(file, other / "mine.py")
    tables = [{"method": f"{path}:MINE", "lr": 0.1} for path in (file, other / "mine.py")]
    assert with_sources(tables[0]) == with_sources(tables[1])
    (other / "mine.py").write_text(FILE + "\n# changed")
    assert with_sources(tables[0]) != with_sources(tables[1])
    assert with_sources({"method": "er", "noise": {"name": "x.py:N"}})["noise"] == {"name": "x.py:N"}


# --- installed packages ------------------------------------------------------------------------------

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "remnant-extras"
version = "1.0"

[tool.setuptools]
py-modules = ["extras"]

[project.entry-points."remnant.methods"]
mine = "extras:MINE"
number = "extras:NUMBER"
absent = "extras:ABSENT"
er = "extras:MINE"

[project.entry-points."remnant.nets"]
tiny = "extras:tiny"
small = "extras:tiny"

[project.entry-points."remnant.noises"]
shift = "extras:SHIFT"
broken = "nowhere:NOISE"
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which a package with extensions is installed."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "extras.py").write_text(FILE)
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation"]
    subprocess.run([*install, "--no-deps", "--target", target, source], check=True)
    return target


@pytest.mark.slow
def test_methods_networks_and_noises_of_an_installed_package_run(
    installed: Path, invoke: Invoke, tmp_path: Path
) -> None:
    words = ["--method", "mine", "--noise", "shift:3", "net=tiny", *SHORT[:1], *SHORT[2:]]
    done = command("run", *words, cwd=tmp_path, path=installed)
    assert done.returncode == 0, done.stderr
    folder = done.stdout.splitlines()[-1]
    assert Path(folder).name.startswith("digits-mine-shift-3-s0-")
    assert "mine on digits, noise shift:3" in done.stdout
    gone = invoke("run", folder)  # without the package
    assert gone.code == 2
    for name in ("method 'mine'", "noise 'shift'", "net 'tiny'"):
        assert f"unknown {name}" in gone.err
    invoke.monkeypatch.syspath_prepend(installed)
    again = invoke("run", folder)
    assert "this run is already finished" in again.out, again.err
    suffix = invoke("run", "--dry-run", "--method", "mine+fit", *words[2:])
    assert ", consolidate " in suffix.out, suffix.err


def test_extensions_are_listed_and_those_that_cannot_be_used_are_explained(
    installed: Path, invoke: Invoke
) -> None:
    invoke.monkeypatch.syspath_prepend(installed)
    done = invoke("list")
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    for words in (
        "mine a method in a file",
        "tiny A network of a few weights.",
        "shift:4 Every k-th label is that of the next class.",
        "er of remnant-extras not used",
        "small of remnant-extras not used",
        "er experience replay",  # the built-in one
        "No module named 'nowhere'",
    ):
        assert words in text, words
    assert "schedule.period = 3" in invoke("list", "settings", "mine").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "mien"], "did you mean 'mine'?"),
        (["--method", "number"], "got 3 without build, plan"),
        (["--method", "absent"], "AttributeError"),
        (["--noise", "broken"], "ModuleNotFoundError: No module named 'nowhere'"),
    ],
)
def test_an_error_of_an_extension_names_the_package(
    installed: Path, invoke: Invoke, words: list[str], message: str
) -> None:
    invoke.monkeypatch.syspath_prepend(installed)
    done = invoke("run", *words)
    assert done.code == 2
    assert message in done.err
    if words[1] in ("absent", "broken"):
        assert "remnant-extras" in done.err


def test_two_packages_with_the_same_name_are_an_error(
    installed: Path, invoke: Invoke, tmp_path_factory: pytest.TempPathFactory
) -> None:
    info = tmp_path_factory.mktemp("other") / "more_extras-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more-extras\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[remnant.methods]\nmine = extras:MINE\n")
    for folder in (installed, info.parent):
        invoke.monkeypatch.syspath_prepend(folder)
    done = invoke("run", "--method", "mine")
    assert done.code == 2
    assert "one package with a method of this name, found more-extras, remnant-extras" in done.err


# --- Python objects ----------------------------------------------------------------------------------


def small_net(spec: remnant.Spec) -> nn.Module:
    return SmallNet(spec.shape[0], len(spec.classes), 4)


def rare_noise(dataset: remnant.Dataset, rng: np.random.Generator) -> Any:  # noqa: ANN401
    labels = dataset.y.copy()
    flipped = rng.random(len(labels)) < 0.2
    labels[flipped] = (labels[flipped] + 1) % len(dataset.spec.classes)
    return labels


def objects() -> dict[str, Any]:
    return {
        "method": remnant.Replay(
            insertion=remnant.LowestLoss(0.5), objective=remnant.AsymmetricCrossEntropy()
        ),
        "net": small_net,
        "data": tiny_data(),
        "noise": rare_noise,
        "tasks": 3,
        "epochs": 4,
        "buffer_size": 10,
        "batch": 8,
    }


def test_objects_run_and_resume_from_python_to_the_same_result(tmp_path: Path) -> None:
    logger = StopAt(0)
    whole = remnant.run(out=tmp_path / "whole", loggers=[logger], **objects())
    assert whole.name.startswith("tiny-er-ace+alpha-rare_noise-s0-") or "custom" in whole.name
    found = result(whole)
    assert (found["data"], found["noise"]) == ("tiny", "rare_noise")
    assert any("data, noise, net: Python objects" in note for note in logger.notes)
    assert any("can be resumed from Python, but not from the command" in note for note in logger.notes)
    for steps in (3, 20):
        with pytest.raises(Interrupted):
            remnant.run(out=tmp_path / "cut", loggers=[StopAt(steps)], **objects())
    again = StopAt(0)
    folder = remnant.run(out=tmp_path / "cut", loggers=[again], **objects())
    assert any("resuming after step 23" in note for note in again.notes)
    assert_identical(whole, folder)
    finished = StopAt(0)
    assert remnant.run(out=tmp_path / "cut", loggers=[finished], **objects()) == folder
    assert any("already finished" in note for note in finished.notes)


def test_a_run_with_objects_cannot_be_repeated_from_the_command_line(invoke: Invoke, tmp_path: Path) -> None:
    folder = remnant.run(out=tmp_path, **objects())
    done = invoke("run", str(folder))
    assert done.code == 2
    for name in ("rare_noise", "small_net"):
        assert f"made with the Python object {__name__}:{name}" in done.err
    assert "data: " in done.err
    assert "run it from Python again" in done.err
    with pytest.raises(RemnantError, match="run it from Python again"):
        remnant.run(folder, out=tmp_path)


@dataclass(frozen=True)
class Own(Spr):
    """An algorithm with its own training loop, which no registry knows."""


@pytest.mark.slow
def test_an_algorithm_that_is_not_registered_runs_and_resumes_from_python(
    invoke: Invoke, tmp_path: Path
) -> None:
    few = {"expert_steps": 2, "base_steps": 2, "finetune_epochs": 1}
    settings: dict[str, Any] = TINY | {"method": Own(**few), "tasks": 2}
    whole = remnant.run(out=tmp_path / "whole", **settings)
    assert result(whole)["method"] == "custom"
    with pytest.raises(Interrupted):
        remnant.run(out=tmp_path / "cut", loggers=[StopAt(4)], **settings)
    assert_identical(whole, remnant.run(out=tmp_path / "cut", **settings))
    done = invoke("run", str(whole))
    assert done.code == 2
    assert f"made with the Python object {__name__}:Own" in done.err


def test_a_replay_method_of_known_components_can_be_repeated_from_the_command_line(
    invoke: Invoke, tmp_path: Path
) -> None:
    logger, method = StopAt(0), remnant.Replay(insertion=remnant.LowestLoss(0.25))
    folder = remnant.run(out=tmp_path, loggers=[logger], **(TINY | {"method": method}))
    assert logger.notes == []
    done = invoke("run", str(folder), "--out", str(tmp_path))
    assert done.code == 0, done.err
    assert "this run is already finished" in done.out
    assert done.out.splitlines()[-1] == str(folder)


def test_the_description_of_an_object_depends_on_its_source_and_on_the_values_it_holds() -> None:
    def net_of(width: int) -> Any:  # noqa: ANN401
        return lambda spec: width

    values: list[Any] = [
        net_of(4),
        net_of(8),
        partial(net_of, 4),
        partial(net_of, 8),
        Own(),
        Own(expert_steps=3),
    ]
    digests = [describe_object(value)["source"] for value in values]
    assert len(set(digests)) == len(values)
    assert describe_object(net_of(4))["source"] == digests[0]
    assert describe_object(small_net)["python"] == f"{__name__}:small_net"


def test_the_description_of_a_function_depends_on_the_globals_it_uses(tmp_path: Path) -> None:
    source = tmp_path / "wide.py"
    digests = set()
    for width in (4, 8, 4):
        source.write_text(
            f"WIDTH = {width}\ndef net(spec):\n    return helper(WIDTH)\ndef helper(width):\n    return net\n"
        )
        digests.add(describe_object(from_file(f"{source}:net", "net"))["source"])
    assert len(digests) == 2


@pytest.mark.slow
def test_the_digest_of_an_object_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    code = (
        "import json, mine; from remnant.extensions import describe_object; "
        "print(json.dumps([describe_object(x)['source'] for x in (mine.tiny, mine.SHIFT, mine.MINE)]))"
    )
    shown = [
        json.loads(
            subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True).stdout
        )
        for _ in range(2)
    ]
    assert shown[0] == shown[1]


def test_a_run_with_a_file_resumes_from_another_folder(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("from remnant import METHODS\nMINE = METHODS['er-ace']\n")
    done = invoke("run", "per_class=12", "epochs=2", "net=small:4", "--method", "mine.py:MINE", "-q")
    folder = tmp_path / done.out.splitlines()[-1]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = invoke("run", str(folder), "--out", str(folder.parent))
    assert "already finished" in again.out


def test_an_object_whose_attributes_raise_is_an_error(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        "class Odd:\n    def __getattr__(self, name):\n        raise KeyError(name)\n\n\nODD = Odd()\n"
    )
    done = invoke("run", f"objective={tmp_path}/odd.py:ODD")
    assert done.code == 2
    assert "expected" in done.err


def test_the_source_of_a_function_whose_file_is_not_python_is_its_name(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("It isn't Python.\n")
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile("def noise(): pass", str(tmp_path / "page.md"), "exec"), names)
    assert describe_object(names["noise"])["python"] == "page:noise"
