"""Computes expressions without columns while a statement is bound: arguments of CALL, maps of options, ..."""

from __future__ import annotations

from typing import Any

from flinkpy.sql.functions.evaluation import compile_expressions
from flinkpy.sql.rex import RexNode
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types.logical_codecs import logical_codec


def constant_value(node: RexNode, settings: SessionSettings) -> Any:
    """Returns the Python value of an expression that has no columns. Raises: as the expression does in a job."""
    import pyarrow as pa

    one_row = pa.RecordBatch.from_pydict({"row": [0]})
    column = compile_expressions([node], settings).evaluate(one_row)[0]
    return logical_codec(node.type).decode(column)[0]
