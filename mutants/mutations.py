"""All mutants of a source file: each is the file with one small change that a test should notice."""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OPPOSITES = [
    *(("min", "max"), ("argmin", "argmax"), ("any", "all"), ("zeros", "ones"), ("floor", "ceil")),
    *(("zeros_like", "ones_like"), ("amin", "amax"), ("sum", "mean"), ("clamp_min", "clamp_max")),
]
NAMES = {name: other for pair in OPPOSITES for name, other in (pair, pair[::-1])}
BUILTINS = ("min", "max", "any", "all")


@dataclass(frozen=True)
class Mutant:
    """A changed file: its path, the line of the change, the code before and after, the whole source."""

    path: str
    line: int
    before: str
    after: str
    source: str

    @property
    def name(self) -> str:
        """What was changed, without the line number, which other changes to the file move."""
        return f"{self.path}: {self.before} -> {self.after}"

    @property
    def package(self) -> str:
        """The package of remnant that is changed."""
        return self.path.split("/")[2]

    @property
    def key(self) -> str:
        """The name with the line number: a file may have the same statement twice."""
        return f"{self.line} {self.name}"


def mutants(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of the file."""
    tree = ast.parse(source)
    found = []
    for statement, node, change in _changes(tree):
        before = _shown(statement)
        saved = copy.copy(node.__dict__)
        change()
        after = _shown(statement)
        found.append(Mutant(path, node.lineno, before, after, ast.unparse(tree)))
        node.__dict__.clear()
        node.__dict__.update(saved)
    return found


def _shown(statement: ast.stmt) -> str:
    """Return a statement in one line, without the statements inside it."""
    lines = ast.unparse(statement).splitlines()
    return lines[0] if hasattr(statement, "body") else " ".join(line.strip() for line in lines)


def _changes(tree: ast.Module) -> Iterator[tuple[ast.stmt, Any, Callable[[], None]]]:
    """Yield each statement with a node of it and a function that changes this node in place."""
    for statement, node in _nodes(tree, None):
        for field, value in _replacements(node):
            yield statement, node, lambda node=node, field=field, value=value: setattr(node, field, value)


def _nodes(parent: ast.AST, statement: ast.stmt | None) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """Yield the nodes that are executed and are not part of a message or a type."""
    for field, value in ast.iter_fields(parent):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr):
                continue
            inside = node if isinstance(node, ast.stmt) else statement
            if inside is not None and hasattr(node, "lineno"):
                yield inside, node
            if not isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
                yield from _nodes(node, inside)


def _replacements(node: ast.AST) -> Iterator[tuple[str, Any]]:  # noqa: C901
    """Yield the fields of a node that are replaced, with their new values."""
    match node:
        case ast.Compare(ops=[op]):
            yield from (("ops", [other()]) for other in COMPARISONS[type(op)])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield "op", OPERATORS[type(op)]()
        case ast.BoolOp(op=op):
            yield "op", ast.And() if isinstance(op, ast.Or) else ast.Or()
        case ast.UnaryOp(op=ast.USub()):
            yield "op", ast.UAdd()
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            if not isinstance(test, ast.Compare):
                yield "test", ast.UnaryOp(ast.Not(), test)
        case ast.Constant(value=bool() | int() | float() as value):
            yield "value", _other_constant(value)
        case ast.Attribute(attr=name) if name in NAMES:
            yield "attr", NAMES[name]
        case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
            yield "func", ast.Name(NAMES[name], ast.Load())
        case ast.Expr(value=ast.Call()):
            yield "value", ast.Constant(None)


def _other_constant(value: bool | float) -> bool | float:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else value * 2 or 1.0
