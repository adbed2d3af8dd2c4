"""Names of built-in process table functions. The planner binds them itself, because they take tables and models.

Source: org.apache.flink.table.functions.BuiltInFunctionDefinitions: ML_PREDICT, TO_CHANGELOG, FROM_CHANGELOG;
org.apache.flink.table.planner.functions.sql.ml.SqlVectorSearchTableFunction.
"""

from __future__ import annotations

from flinkpy.sql.functions.definition import FunctionKind, definition
from flinkpy.sql.functions.registry import register
from flinkpy.sql.functions.results import STRING, exactly

for _name in ("FROM_CHANGELOG", "ML_PREDICT", "TO_CHANGELOG", "VECTOR_SEARCH"):
    register(definition(_name, FunctionKind.PROCESS_TABLE, [], exactly(STRING), None, is_deterministic=False))
