"""SQL and the Table API: environments, tables, expressions, types, user-defined functions. Source: pyflink.table."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from flinkpy.common.types import Row, RowKind
from flinkpy.table.types import DataTypes

if TYPE_CHECKING:
    from flinkpy.table.compiled_plan import CompiledPlan
    from flinkpy.table.connectors.changelog_mode import ChangelogMode
    from flinkpy.table.data_view import DataView, ListView, MapView
    from flinkpy.table.environment_settings import EnvironmentSettings
    from flinkpy.table.explain_detail import ExplainDetail
    from flinkpy.table.expression import Expression
    from flinkpy.table.model_descriptor import ModelDescriptor
    from flinkpy.table.module.module import Module, ModuleEntry
    from flinkpy.table.plan_reference import PlanReference
    from flinkpy.table.schema import Schema
    from flinkpy.table.statement_set import StatementSet
    from flinkpy.table.table import GroupedTable, GroupWindowedTable, OverWindowedTable, Table, WindowGroupedTable
    from flinkpy.table.table_config import TableConfig
    from flinkpy.table.table_descriptor import FormatDescriptor, TableDescriptor
    from flinkpy.table.table_environment import StreamTableEnvironment, TableEnvironment
    from flinkpy.table.table_pipeline import TablePipeline
    from flinkpy.table.table_result import ResultKind, TableResult
    from flinkpy.table.udf import (
        AggregateFunction,
        AsyncScalarFunction,
        FunctionContext,
        ScalarFunction,
        TableAggregateFunction,
        TableFunction,
    )

#: Modules below `flinkpy.table`, imported when a name of theirs is first used: formats need the types alone.
_LAZY = {
    "FormatDescriptor": "table_descriptor",
    "TableDescriptor": "table_descriptor",
    "TablePipeline": "table_pipeline",
    "WindowGroupedTable": "table",
    "OverWindowedTable": "table",
    "GroupWindowedTable": "table",
    "GroupedTable": "table",
    "Expression": "expression",
    "AggregateFunction": "udf",
    "AsyncScalarFunction": "udf",
    "ChangelogMode": "connectors.changelog_mode",
    "CompiledPlan": "compiled_plan",
    "EnvironmentSettings": "environment_settings",
    "DataView": "data_view",
    "ExplainDetail": "explain_detail",
    "FunctionContext": "udf",
    "ListView": "data_view",
    "MapView": "data_view",
    "ModelDescriptor": "model_descriptor",
    "Module": "module.module",
    "ModuleEntry": "module.module",
    "PlanReference": "plan_reference",
    "ResultKind": "table_result",
    "ScalarFunction": "udf",
    "Schema": "schema",
    "StatementSet": "statement_set",
    "StreamTableEnvironment": "table_environment",
    "Table": "table",
    "TableAggregateFunction": "udf",
    "TableConfig": "table_config",
    "TableEnvironment": "table_environment",
    "TableFunction": "udf",
    "TableResult": "table_result",
}

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "ChangelogMode",
    "CompiledPlan",
    "DataTypes",
    "DataView",
    "EnvironmentSettings",
    "ExplainDetail",
    "Expression",
    "FormatDescriptor",
    "FunctionContext",
    "GroupWindowedTable",
    "GroupedTable",
    "ListView",
    "MapView",
    "ModelDescriptor",
    "Module",
    "ModuleEntry",
    "OverWindowedTable",
    "PlanReference",
    "ResultKind",
    "Row",
    "RowKind",
    "ScalarFunction",
    "Schema",
    "StatementSet",
    "StreamTableEnvironment",
    "Table",
    "TableAggregateFunction",
    "TableConfig",
    "TableDescriptor",
    "TableEnvironment",
    "TableFunction",
    "TablePipeline",
    "TableResult",
    "WindowGroupedTable",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"flinkpy.table.{_LAZY[name]}"), name)
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec(f"flinkpy.table.{name}") is not None:
        return import_module(f"flinkpy.table.{name}")
    # A clearer error than Python's "cannot import name" for PyFlink's other names.
    raise ImportError(f"flinkpy.table has no {name}: of PyFlink's Table API, flinkpy has not all yet", name=name)
