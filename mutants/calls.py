"""Which tests call a function, and how long they take: measured once, before anything is changed.

A mutant is then tested by the tests that call the function it changes, the fastest first. Code outside of
functions runs when its module is imported, so that all tests of the package count as calling it.
"""

import ast
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mutants.mutations import Mutant

CALLED = set[str]()  # functions that were called since this was cleared, as path:line


def with_records(path: str, source: str) -> str:
    """Return the source of a file whose functions add themselves to CALLED."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            record = f"__import__('mutants.calls').calls.CALLED.add('{path}:{node.lineno}')"
            after_docstring = int(ast.get_docstring(node) is not None)
            node.body[after_docstring:after_docstring] = ast.parse(record).body
    return ast.unparse(tree)


class Recorder:
    """A plugin of pytest that writes for each test the functions it calls, its seconds, and if it fails."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.tests: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        CALLED.clear()
        self.tests[item.nodeid] = {"seconds": 0.0, "failed": False}
        result = yield
        self.tests[item.nodeid]["functions"] = sorted(CALLED)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests[report.nodeid]["seconds"] += report.duration
        self.tests[report.nodeid]["failed"] |= report.failed

    def pytest_sessionfinish(self) -> None:
        self.target.write_text(json.dumps(self.tests))


class Only:
    """A plugin of pytest that runs the given tests in the given order, and no others."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {name: i for i, name in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda i: self.order[i.nodeid])


class Calls:
    """The tests of a package that call each of its functions, read from what a `Recorder` has written.

    Tests that fail without a mutation read the text of the source, which has no comments then. They are left
    out: they would kill every mutant.
    """

    def __init__(self, written: Path) -> None:
        tests = json.loads(written.read_text())
        self.left_out = [name for name, test in tests.items() if test["failed"]]
        found = {name: test for name, test in tests.items() if not test["failed"]}
        self.seconds = {name: test["seconds"] for name, test in found.items()}
        self.tests = defaultdict[str, set[str]](set)
        for name, test in found.items():
            for function in test["functions"]:
                self.tests[function].add(name)

    def tests_of(self, mutant: Mutant, source: str) -> list[str]:
        """Return the tests that a mutant of this source can fail, the fastest first.

        Calls in other processes, such as the ranks of a test, are not recorded: a function that no test seems
        to call is tested by the test file of its module.
        """
        line = line_of_function(source, mutant.line)
        names = self.seconds if line is None else self.tests[f"{mutant.path}:{line}"]
        path = Path(mutant.path.replace("src/remnant", "tests", 1))
        own = str(path.with_name(f"test_{path.name}"))
        return sorted(
            names or [name for name in self.seconds if name.partition("::")[0] == own],
            key=lambda name: (self.seconds[name], name),
        )


def line_of_function(source: str, line: int) -> int | None:
    """Return the line of the innermost function whose body has a line; None outside of functions.

    >>> line_of_function("X = 1\\ndef f():\\n    return 2\\n", 3), line_of_function("X = 1\\n", 1)
    (2, None)
    """
    around = [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= line <= (node.end_lineno or line)
    ]
    return max(around, default=None)
