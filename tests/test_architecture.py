import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "remnant"

# Imports point up this list: data -> noise -> stream -> learner -> metrics -> runner -> command line.
ORDER = [
    "errors", "component", "rng", "autoaugment", "augment", "skeleton", "data", "noise", "stream",
    "schedule", "insertion", "nets", "predict", "memory", "scoring", "replacement", "objective",
    "protocol", "sgd", "mixture", "consolidate", "spr", "cnll", "methods", "learner", "metrics",
    "evaluate", "checkpoint", "registry", "config", "recipe", "published", "experiment", "estimate",
    "process", "progress", "result", "runner", "summary", "listing", "transition",
    "commands", "cli_data", "cli", "__main__",
]  # fmt: skip
FILES = sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "remnant":
            parts = node.module.split(".")
            names = [alias.name for alias in node.names]
            found |= {parts[1]} if len(parts) > 1 else {n for n in names if n in ORDER}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("remnant.")}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    if path == ROOT / "__init__.py":
        return
    mine = ORDER.index(room(path))
    back = {name for name in imported_rooms(path) - {room(path)} if ORDER.index(name) > mine}
    assert not back, f"{room(path)} imports {back}, which come later"


def test_learners_and_metrics_do_not_know_of_files_or_terminals() -> None:
    rooms = ("learner", "metrics", "evaluate", "memory", "replacement", "objective", "consolidate")
    for path in [path for path in FILES if room(path) in rooms]:
        assert not imported_rooms(path) & {"checkpoint", "runner", "progress", "config"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno <= 60, node.name


def test_nothing_is_ever_loaded_through_pickle() -> None:
    forbidden = ("torch.load(", "pickle.load", "allow_pickle=True", "eval(", "exec(")
    for path in FILES:
        code = path.read_text().replace("net.eval()", "").replace(".eval()", "")
        assert not [word for word in forbidden if word in code], path


def test_no_global_seed_is_set_outside_a_fork() -> None:
    for path in FILES:
        assert "np.random.seed" not in path.read_text()
        if "torch.manual_seed" in path.read_text():
            assert "fork_rng" in path.read_text()
