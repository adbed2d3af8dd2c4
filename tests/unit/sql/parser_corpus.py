"""The corpus of SQL statements in `corpus/`: texts with the trees that the parser makes of them, or its errors.

A file has entries that a line of equals signs ends. An entry is a statement, a line of hyphens, and the tree, in which
fields with their default values are left out; for texts that do not parse it is the error.

With `--rewrite`, this module as a program writes trees and errors anew. Read the difference before you commit it.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from flinkpy.sql.parser import SqlParseError, parse_statement
from flinkpy.sql.parser.nodes import Identifier, Node

CORPUS = Path(__file__).with_name("corpus")
_AFTER_STATEMENT = "-" * 40
_AFTER_ENTRY = "=" * 40
_MAX_CHARS = 110


def files() -> list[Path]:
    """Returns the files of the corpus."""
    return sorted(CORPUS.glob("*.txt"))


def entries(text: str) -> list[tuple[str, str]]:
    """Returns the statements in the text of a file, each with its tree or error."""
    found = []
    for entry in text.split(f"{_AFTER_ENTRY}\n"):
        if entry.strip():
            statement, _, result = entry.partition(f"{_AFTER_STATEMENT}\n")
            found.append((statement.rstrip("\n"), result.rstrip("\n")))
    return found


def written(statements: list[str]) -> str:
    """Returns the text of a file with these statements and what the parser makes of them."""
    return "".join(f"{each}\n{_AFTER_STATEMENT}\n{result(each)}\n{_AFTER_ENTRY}\n" for each in statements)


def result(statement: str) -> str:
    """Returns the tree of a statement, or the error."""
    try:
        return tree(parse_statement(statement))
    except SqlParseError as error:
        return error.message


def tree(node: Node) -> str:
    """Returns a node as text, on several lines if it is long."""
    return _shown(node, 0)


def _shown(value: object, indent: int) -> str:
    line = _on_one_line(value)
    if len(line) + indent <= _MAX_CHARS:
        return line
    blanks = " " * (indent + 2)
    if isinstance(value, Node):
        fields = (f"{blanks}{name}={_shown(field, indent + 2)}\n" for name, field in _fields(value))
        return f"{type(value).__name__}(\n{''.join(fields)}{' ' * indent})"
    if isinstance(value, tuple):
        items = (f"{blanks}{_shown(item, indent + 2)}\n" for item in value)
        return f"[\n{''.join(items)}{' ' * indent}]"
    return line


def _on_one_line(value: object) -> str:
    if isinstance(value, Identifier):
        return ".".join(f"`{part}`" if quoted else part for part, quoted in zip(value.parts, value.quoted, strict=True))
    if isinstance(value, Node):
        fields = ", ".join(f"{name}={_on_one_line(field)}" for name, field in _fields(value))
        return f"{type(value).__name__}({fields})"
    if isinstance(value, tuple):
        return f"[{', '.join(_on_one_line(item) for item in value)}]"
    return repr(value)


def _fields(node: Node) -> list[tuple[str, object]]:
    """Returns the fields of a node that have not their default values."""
    values = ((field, getattr(node, field.name)) for field in dataclasses.fields(node) if field.name != "position")
    return [(field.name, value) for field, value in values if not _is_default(field, value)]


def _is_default(field: dataclasses.Field[object], value: object) -> bool:
    return field.default is not dataclasses.MISSING and value == field.default and type(value) is type(field.default)


if __name__ == "__main__":
    if sys.argv[1:] != ["--rewrite"]:
        sys.exit(__doc__)
    for path in files():
        path.write_text(written([statement for statement, _ in entries(path.read_text())]))
