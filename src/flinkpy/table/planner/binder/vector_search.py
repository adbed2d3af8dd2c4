"""VECTOR_SEARCH: adds to each row the rows of another table whose vectors are most similar to one of its own.

Source: org.apache.flink.table.planner.functions.sql.ml.SqlVectorSearchTableFunction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import TableProgramError, ValidationError
from flinkpy.functions.table_functions import FunctionContext, TableFunction
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import InputRef, Literal, UserFunctionCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.casting import supports_implicit_cast
from flinkpy.table.connectors.table_source import VectorSearchFunction, VectorSearchTableSource
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.binder.arguments import bind_arguments, constant_map, descriptor_names, table_argument
from flinkpy.table.planner.binder.async_config import AsyncConfig
from flinkpy.table.planner.binder.expressions import ExpressionBinder
from flinkpy.table.planner.errors import did_you_mean, invalid
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.time import as_regular

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.table.planner.binder.queries import QueryBinder

VECTOR_SEARCH = "VECTOR_SEARCH"
_SCORE = "score"
_ARGUMENTS = ("SEARCH_TABLE", "COLUMN_TO_SEARCH", "COLUMN_TO_QUERY", "TOP_K", "CONFIG")


class VectorSearchFunctionCaller(TableFunction):
    """Calls a VectorSearchFunction as a vectorised table function: a list of rows per query.

    Thread: the task thread.
    """

    def __init__(self, function: VectorSearchFunction, top_k: int) -> None:
        self._function = function
        self._top_k = top_k

    def open(self, function_context: FunctionContext) -> None:
        self._function.open(function_context)

    def close(self) -> None:
        self._function.close()

    def is_deterministic(self) -> bool:
        return False

    def eval(self, queries: Any) -> pa.ListArray:
        import numpy as np
        import pyarrow as pa

        positions, rows, scores = self._function.search(queries, self._top_k)
        offsets = np.searchsorted(positions, np.arange(len(queries) + 1)).astype(np.int32)
        columns = [*rows.columns, pa.array(scores, pa.float64())]
        # Names of columns may be equal, and those of a struct may not.
        names = [str(place) for place in range(len(columns))]
        return pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(columns, names))


def bind_vector_search(
    queries: QueryBinder, binder: ExpressionBinder, call: ast.FunctionCall
) -> tuple[UserFunctionCall, lt.RowType]:
    """Returns the call over the columns of the left table, and the rows of its result.

    Raises:
        ValidationError: an argument does not fit.
        TableProgramError: the table cannot search vectors.
    """
    arguments = bind_arguments(call, _ARGUMENTS, required=4)
    plan = table_argument(
        queries, None, arguments["SEARCH_TABLE"], f"First argument of {VECTOR_SEARCH} must be a table."
    )
    column = _column(arguments["COLUMN_TO_SEARCH"], plan)
    kind = plan.type_of(column)
    query = binder.bind(arguments["COLUMN_TO_QUERY"])
    if not supports_implicit_cast(query.type.as_nullable(), kind.as_nullable()):
        raise invalid(
            arguments["COLUMN_TO_QUERY"],
            f"Can not cast the query column type {query.type} to target type {kind}. Please keep the query column type "
            "is same to the search column type.",
        )
    top_k = _top_k(binder, arguments["TOP_K"])
    function = _function(plan, column, _config(queries, arguments.get("CONFIG")))
    names = rel.unique_names((*plan.names, _SCORE))
    row = rel.row_of(names, (*(as_regular(each.type) for each in plan.row_type.fields), lt.DoubleType()))
    operand = query if operators.same_type(query.type, kind) else operators.cast(query, kind.as_nullable())
    caller = VectorSearchFunctionCaller(function, top_k)
    return UserFunctionCall(row, VECTOR_SEARCH, caller, (operand,), "arrow", False), row


def _column(node: ast.Expression, plan: rel.RelNode) -> int:
    """Returns the position of the vectors."""
    names = descriptor_names(node, f"Second argument of {VECTOR_SEARCH} must be a descriptor with a column name.")
    if len(names) != 1:
        raise invalid(
            node,
            f"Expect parameter COLUMN_TO_SEARCH for {VECTOR_SEARCH} only contains one column, but multiple columns are "
            f"found in operand DESCRIPTOR({', '.join(names)}).",
        )
    if names[0] not in plan.names:
        raise invalid(node, f"Unknown identifier '{names[0]}'{did_you_mean(names[0], plan.names)}")
    place = plan.names.index(names[0])
    kind = plan.type_of(place)
    if not isinstance(kind, lt.ArrayType) or not isinstance(kind.element, (lt.FloatType, lt.DoubleType)):
        raise invalid(
            node,
            f"Expect search column `{names[0]}` type is ARRAY<FLOAT> or ARRAY<DOUBLE>, but its type is {kind}.",
        )
    return place


def _top_k(binder: ExpressionBinder, node: ast.Expression) -> int:
    value = binder.bind(node)
    if not isinstance(value, Literal) or not isinstance(value.type, lt.IntType) or value.value is None:
        raise invalid(
            node,
            f"Expect parameter top_k is an INTEGER NOT NULL literal in {VECTOR_SEARCH}, but it is {value} with type "
            f"{value.type}.",
        )
    if value.value <= 0:
        raise invalid(node, f"Parameter top_k must be greater than 0, but was {value.value}.")
    return int(value.value)


def _config(queries: QueryBinder, node: ast.Expression | None) -> AsyncConfig:
    raw = {} if node is None else constant_map(queries, node, "Config param should be a MAP of string literals.")
    return AsyncConfig.of(raw, VECTOR_SEARCH)


def _function(plan: rel.RelNode, column: int, config: AsyncConfig) -> VectorSearchFunction:
    """Returns the function of the table's source. The plan is a scan, which may choose and rename columns."""
    places = list(range(plan.width))
    while not isinstance(plan, rel.Scan):
        if isinstance(plan, rel.WatermarkAssigner):
            plan = plan.input
        elif isinstance(plan, rel.Project) and all(isinstance(each, InputRef) for each in plan.expressions):
            places = [plan.expressions[place].index for place in places]  # type: ignore[attr-defined]
            plan = plan.input
        else:
            raise TableProgramError(
                f"{VECTOR_SEARCH} can only search a table with physical columns, but its search table is computed by "
                f"{type(plan).__name__}."
            )
    name = plan.table.identifier.as_summary_string()
    if not isinstance(plan.source, VectorSearchTableSource):
        raise TableProgramError(
            f"The table {name} can not be searched: its source {plan.source.summary} does not implement "
            "VectorSearchTableSource."
        )
    if config.is_async:
        raise ValidationError(
            f"Require async mode, but vector search function provider of table {name} doesn't support async mode."
        )
    if places != list(range(plan.width)):
        raise TableProgramError(f"{VECTOR_SEARCH} needs all columns of the table {name} in their order.")
    return plan.source.vector_search_function(column)
