"""Functions that the planner replaces when it binds a query: it knows their values, or the functions around them."""

from __future__ import annotations

from flinkpy.sql.functions.definition import FunctionKind, definition
from flinkpy.sql.functions.registry import register
from flinkpy.sql.functions.results import STRING, exactly, nullable

# The current database is a literal; JSON(...) marks a value of JSON_OBJECT or JSON_ARRAY as a document.
register(
    definition(
        "CURRENT_DATABASE",
        FunctionKind.SCALAR,
        [""],
        exactly(STRING.not_null()),
        None,
        is_deterministic=False,
    )
)
register(definition("JSON", FunctionKind.SCALAR, ["CHARACTER_STRING"], nullable(STRING), None))
