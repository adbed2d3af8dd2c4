"""CatalogTable, CatalogView, CatalogFunction and CatalogDatabase: what a catalog stores.

Source: org.apache.flink.table.catalog.{CatalogTable, CatalogView, CatalogFunction, CatalogDatabase,
ResolvedCatalogTable, ContextResolvedTable}.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.schema import Schema


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as declared.

    Attributes:
        options: the WITH options, such as `connector`.
        distribution: that of DISTRIBUTED BY: (HASH, RANGE or None; number of buckets or None; columns). None for none.
    """

    schema: Schema
    options: dict[str, str] = field(default_factory=dict)
    comment: str = ""
    partition_keys: tuple[str, ...] = ()
    distribution: tuple[str | None, int | None, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class InlineTable(CatalogTable):
    """A table that has its source with it, because a program gave the rows. No catalog can store it.

    Attributes:
        source: the ScanTableSource.
    """

    source: Any = None


@dataclass(frozen=True, slots=True)
class CatalogView:
    """A view.

    Attributes:
        schema: its columns with their types.
        original_query: the text that the user wrote.
        expanded_query: the text with all names in full, which is what reading the view runs.
    """

    schema: Schema
    original_query: str
    expanded_query: str
    comment: str = ""
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryView:
    """A temporary view of a Table object, or of a DataStream. It has no SQL text.

    Attributes:
        operation: the planner's logical plan.
    """

    operation: Any
    resolved_schema: ResolvedSchema
    comment: str = ""


CatalogBaseTable = CatalogTable | CatalogView | QueryView


@dataclass(frozen=True, slots=True)
class ContextResolvedTable:
    """A table or view that a name stands for, with its resolved schema.

    Attributes:
        options: those of the table, or with the changes of an OPTIONS hint.
    """

    identifier: ObjectIdentifier
    table: CatalogBaseTable
    resolved_schema: ResolvedSchema
    is_temporary: bool = False
    is_anonymous: bool = False

    @property
    def options(self) -> dict[str, str]:
        return {} if isinstance(self.table, QueryView) else self.table.options

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return self.table.partition_keys if isinstance(self.table, CatalogTable) else ()


@dataclass(frozen=True, slots=True)
class CatalogFunction:
    """A user-defined function.

    Attributes:
        class_name: for LANGUAGE PYTHON `module.name` of the function object, for others the class.
        language: PYTHON, JAVA or SCALA. Only PYTHON can be called.
        function: the function object itself, for functions that a program registered; else None.
    """

    class_name: str
    language: str = "PYTHON"
    function: Any = None


@dataclass(frozen=True, slots=True)
class CatalogDatabase:
    properties: dict[str, str] = field(default_factory=dict)
    comment: str = ""
