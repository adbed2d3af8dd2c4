"""ML_PREDICT: adds to each row of a table the predictions of a model.

Source: org.apache.flink.table.planner.functions.sql.ml.SqlMLPredictTableFunction,
org.apache.flink.table.types.inference.strategies.MLPredictTypeStrategy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import (
    ASYNC_ML_PREDICT_CAPACITY,
    ASYNC_ML_PREDICT_TIMEOUT,
)
from flinkpy.functions.table_functions import FunctionContext, TableFunction
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import InputRef, UserFunctionCall
from flinkpy.sql.types.casting import supports_implicit_cast
from flinkpy.table.models.model_provider import PredictFunction
from flinkpy.table.models.registry import model_provider
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.binder.arguments import bind_arguments, constant_map, descriptor_names, table_argument
from flinkpy.table.planner.binder.async_config import AsyncConfig
from flinkpy.table.planner.binder.scope import Scope
from flinkpy.table.planner.errors import did_you_mean, invalid
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.time import as_regular

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.table.planner.binder.queries import QueryBinder

ML_PREDICT = "ML_PREDICT"


class PredictTableFunction(TableFunction):
    """Calls a PredictFunction as a vectorised table function: a list of predictions per row.

    Thread: the task thread.
    """

    def __init__(self, function: PredictFunction, names: tuple[str, ...]) -> None:
        self._function = function
        self._names = names

    def open(self, function_context: FunctionContext) -> None:
        self._function.open(function_context)

    def close(self) -> None:
        self._function.close()

    def is_deterministic(self) -> bool:
        return False

    def eval(self, *columns: Any) -> pa.ListArray:
        import numpy as np
        import pyarrow as pa

        num_rows = len(columns[0])
        rows, predicted = self._function.predict(list(columns), num_rows)
        offsets = np.searchsorted(rows, np.arange(num_rows + 1)).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(predicted, list(self._names)))


def bind_ml_predict(queries: QueryBinder, outer: Scope | None, call: ast.FunctionCall) -> rel.RelNode:
    """Returns the plan of ML_PREDICT. Raises: ValidationError if an argument does not fit the model."""
    arguments = bind_arguments(call, ("INPUT", "MODEL", "ARGS", "CONFIG"), required=3)
    if isinstance(arguments["INPUT"], ast.TableArgument) and arguments["INPUT"].partition_by:
        raise invalid(arguments["INPUT"], f"{ML_PREDICT} takes a table without PARTITION BY.")
    plan = table_argument(
        queries, outer, arguments["INPUT"], f"First argument must be a table for {ML_PREDICT} function."
    )
    reference = arguments["MODEL"]
    if not isinstance(reference, ast.ModelReference):
        raise invalid(reference, f"Second argument must be a model for {ML_PREDICT} function.")
    try:
        found = queries.context.tables.models.get_model_or_error(reference.name.parts)
    except ValidationError as error:
        raise invalid(reference, error.message) from error
    provider, model = model_provider(found)
    columns = _columns(arguments["ARGS"], plan, model.inputs)
    is_async, capacity, timeout_ms = _settings(queries, arguments.get("CONFIG"), provider.is_asynchronous, model.name)
    function = provider.create_predict_function(model, capacity if is_async else 1, timeout_ms)
    names = rel.unique_names((*plan.names, *model.outputs.names))[plan.width :]
    row = rel.row_of(names, tuple(each.type for each in model.outputs.fields))
    wrapped = PredictTableFunction(function, model.outputs.names)
    return rel.MLPredict(plan, UserFunctionCall(row, ML_PREDICT, wrapped, columns, "arrow", False), row)


def _columns(node: ast.Expression, plan: rel.RelNode, inputs: Any) -> tuple[Any, ...]:
    """Returns the columns of DESCRIPTOR with the types of the model's inputs."""
    names = descriptor_names(
        node, f"Third argument must be a descriptor with simple column names for {ML_PREDICT} function."
    )
    if len(names) != len(inputs.fields):
        raise invalid(
            node, f"Number of descriptor columns ({len(names)}) does not match model input size ({len(inputs.fields)})."
        )
    found = []
    for place, (name, field) in enumerate(zip(names, inputs.fields, strict=True)):
        if name not in plan.names:
            raise invalid(
                node,
                f"Descriptor column '{name}' not found in table columns. Available columns: {', '.join(plan.names)}."
                f"{did_you_mean(name, plan.names)}",
            )
        column = plan.names.index(name)
        kind = as_regular(plan.type_of(column))
        if not supports_implicit_cast(kind.as_nullable(), field.type.as_nullable()):
            raise invalid(
                node,
                f"Descriptor column '{name}' type {kind} cannot be assigned to model input type {field.type} at "
                f"position {place}.",
            )
        reference = InputRef(plan.type_of(column), column)
        same = operators.same_type(kind, field.type)
        found.append(reference if same else operators.cast(reference, field.type.as_nullable(kind.nullable)))
    return tuple(found)


def _settings(
    queries: QueryBinder, node: ast.Expression | None, can_be_async: bool, model: str
) -> tuple[bool, int, int]:
    """Returns if calls are asynchronous, how many run at once, and how long one may take."""
    raw = (
        {}
        if node is None
        else constant_map(queries, node, f"Config parameter of {ML_PREDICT} must be a MAP of constants.")
    )
    config = AsyncConfig.of(raw, ML_PREDICT)
    if config.is_async and not can_be_async:
        raise ValidationError(
            f"Require async mode, but model provider of model '{model}' doesn't support async mode.",
            details={"model": model},
        )
    configuration = queries.context.configuration
    return (
        can_be_async if config.is_async is None else config.is_async,
        read_option(configuration, ASYNC_ML_PREDICT_CAPACITY) if config.capacity is None else config.capacity,
        read_option(configuration, ASYNC_ML_PREDICT_TIMEOUT) if config.timeout_ms is None else config.timeout_ms,
    )
