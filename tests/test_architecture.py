"""Rules about the source itself: direction of imports, sizes, names, and things that are never done."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from remnant.config import Config
from remnant.config.registries import METHOD_NAMES, REGISTRIES
from remnant.settings import describe_setting, settings

TESTS = Path(__file__).parent
ROOT = TESTS.parent / "src" / "remnant"
FILES = sorted(ROOT.rglob("*.py"))
PACKAGES = sorted({path.parent for path in FILES})

# Every package imports from those before it only.
ORDER = [
    "errors", "settings", "extensions", "rng", "transforms", "data", "noise", "stream", "engine", "nets",
    "features", "buffer", "suspects", "methods", "config", "models", "experiment", "learner", "sweep",
    "report", "cli", "__main__",
]  # fmt: skip


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def in_source(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported(path: Path) -> set[str]:
    """Return the packages of remnant that a file imports, at its top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "remnant":
            parts = node.module.split(".")
            names = [alias.name for alias in node.names]
            found |= {parts[1]} if len(parts) > 1 else {name for name in names if name in ORDER}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("remnant.")}
    return found


def test_imports_point_one_way() -> None:
    back = [
        f"{in_source(path)} imports {name}, which comes later"
        for path in FILES
        if path != ROOT / "__init__.py"
        for name in imported(path) - {package_of(path)}
        if ORDER.index(name) > ORDER.index(package_of(path))
    ]
    assert back == []


def test_methods_and_metrics_know_nothing_of_files_and_consoles() -> None:
    packages = ("transforms", "stream", "engine", "nets", "buffer", "methods")
    quiet = [path for path in FILES if package_of(path) in packages]
    quiet += [ROOT / "experiment" / "metrics.py", ROOT / "experiment" / "evaluate.py"]
    for path in quiet:
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not names & {"print", "open", "Console", "Path"}, path


def test_only_the_runner_the_stream_and_the_noise_know_true_labels() -> None:
    blind = ("engine", "nets", "features", "buffer", "methods")
    for path in [path for path in FILES if package_of(path) in blind]:
        assert not re.search(r"\.truth\b", path.read_text()), path


def test_packages_stay_small() -> None:
    counts = {path: len(list(path.glob("*.py"))) for path in PACKAGES}
    assert counts.pop(ROOT) <= 8
    assert counts.pop(ROOT / "data") <= 18
    assert {path: count for path, count in counts.items() if count > 10} == {}


def test_files_and_functions_stay_small() -> None:
    for path in FILES:
        text = path.read_text()
        assert len(text.splitlines()) <= 300, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.body[0].lineno + 1  # without its parameters
                assert lines <= 60, (path, node.name)


def test_no_two_classes_have_the_same_name() -> None:
    nodes = [node for path in FILES for node in ast.walk(ast.parse(path.read_text()))]
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_setting_has_a_description() -> None:
    for registry in (METHOD_NAMES, *REGISTRIES.values()):
        for name, component in registry.builtin.items():
            for key in settings(component):
                assert describe_setting(component, key).strip(), f"{registry.kind} {name}: {key}"
    for name, field in Config.model_fields.items():
        assert field.description, name


# Interfaces, which compute nothing.
WITHOUT_TESTS = {"noise/base.py"}


def test_every_module_that_computes_has_a_test_file_of_its_name() -> None:
    missing = [
        in_source(path)
        for path in FILES
        if path.name not in ("__init__.py", "__main__.py")
        and in_source(path) not in WITHOUT_TESTS
        and not (TESTS / path.relative_to(ROOT).with_name(f"test_{path.name}")).is_file()
    ]
    assert missing == []


def test_no_code_asks_which_method_it_runs() -> None:
    for path in FILES:
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "isinstance":
                asked = ast.unparse(call.args[1])
                assert not re.search(r"Learner|Algorithm|\b(Replay|Spr|Cnll)\b", asked), (path, asked)


@pytest.mark.parametrize("word", ["torch.load(", "pickle.load", "allow_pickle=True", "eval(", "exec("])
def test_nothing_is_unpickled_or_evaluated(word: str) -> None:
    for path in FILES:
        code = path.read_text().replace(".eval()", "")
        assert word not in code, path


def test_no_global_seed_is_set_outside_a_fork() -> None:
    for path in FILES:
        assert "np.random.seed" not in path.read_text()
        if "torch.manual_seed" in path.read_text():
            assert "fork_rng" in path.read_text()
