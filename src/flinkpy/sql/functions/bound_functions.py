"""Functions that the planner replaces when it binds a query, because it knows their values."""

from __future__ import annotations

from flinkpy.sql.functions.definition import FunctionKind, definition
from flinkpy.sql.functions.registry import register
from flinkpy.sql.functions.results import STRING, exactly

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
