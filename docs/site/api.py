"""Signature and docstring of public names, in Markdown, from the source."""

import ast
import inspect
import re
import textwrap

import remnant


def describe_name(name: str) -> str:
    """Return a section for a public name of remnant."""
    value = getattr(remnant, name)
    if inspect.isclass(value):
        return "\n\n".join([f"### `{name}`", _place(name, value), *_class_parts(value)])
    if inspect.isfunction(value):
        return "\n\n".join([f"### `{name}`", _place(name, value), *_function_parts(value)])
    about = {
        "METHODS": "All methods by name, see [methods](methods/README.md).",
        "__version__": "The version.",
    }
    return f"### `{name}`\n\n{about[name]}"


def _place(name: str, value: object) -> str:
    return f"`remnant.{name}`, defined in `{value.__module__}`"


def _class_parts(value: type) -> list[str]:
    """Return docstring and fields of a class, and its public methods."""
    source = textwrap.dedent(inspect.getsource(value))
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    lines = source.splitlines()
    parts = [_text(ast.get_docstring(tree) or "")]
    fields = [node for node in tree.body if isinstance(node, ast.AnnAssign)]
    if fields and value is not remnant.Config:  # its fields are the page of settings
        parts.append(_code([line for node in fields for line in lines[node.lineno - 1 : node.end_lineno]]))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and (node.name[0] != "_" or node.name == "__init__"):
            parts += _parts(node, lines)
    return parts


def _function_parts(value: object) -> list[str]:
    source = textwrap.dedent(inspect.getsource(value))  # type: ignore[arg-type]
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.FunctionDef)
    return _parts(tree, source.splitlines())


def _parts(node: ast.FunctionDef, lines: list[str]) -> list[str]:
    """Return the signature of a function and its docstring."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return [_code(lines[first - 1 : node.body[0].lineno - 1]), _text(ast.get_docstring(node) or "")]


def _code(lines: list[str]) -> str:
    text = textwrap.dedent("\n".join(re.sub(r"  # noqa.*", "", line) for line in lines))
    return f"```py\n{text}\n```"


def _text(docstring: str) -> str:
    """Return a docstring whose examples are code blocks."""
    blocks = docstring.split("\n\n")
    return "\n\n".join(
        block if ">>>" not in block else f"```pycon\n{textwrap.dedent(block)}\n```" for block in blocks
    )
