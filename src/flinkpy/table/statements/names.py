"""Names of objects, as programs give them to methods."""

from __future__ import annotations

from flinkpy.common.errors import SqlParseError, ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser import parse_expression


def parse_path(path: str) -> tuple[str, ...]:
    """Returns the parts of a name such as `t`, `db.t` or `` cat.`my db`.t ``. Raises: ValidationError."""
    try:
        found = parse_expression(path)
    except SqlParseError as error:
        raise ValidationError(f"Invalid SQL identifier {path}: {error.message}") from error
    if not isinstance(found, ast.Identifier):
        raise ValidationError(f"Invalid SQL identifier {path}.")
    return found.parts
