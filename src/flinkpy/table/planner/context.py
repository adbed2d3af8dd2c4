"""PlannerContext: what binding and planning need from the session: catalogs, connectors, functions, settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from flinkpy.graph.table_specs import SessionSettings
from flinkpy.sql.parser import nodes as ast
from flinkpy.table.planner.binder.functions import FunctionResolver


class Tables(Protocol):
    """The part of CatalogManager that the planner uses."""

    @property
    def current_database(self) -> str | None: ...

    @property
    def models(self) -> Any:
        """The ModelCatalog of the session."""
        ...

    def get_table_or_error(self, parts: tuple[str, ...]) -> Any:
        """Returns the ContextResolvedTable. Raises: ValidationError if there is none."""
        ...

    def row_count(self, identifier: Any) -> int:
        """Returns the number of rows of a table of which the catalog knows it, else -1."""
        ...


@dataclass(frozen=True)
class PlannerContext:
    """Attributes:
    tables: finds tables and views by name.
    functions: finds functions.
    settings: the session's settings that results depend on.
    configuration: the options of the session.
    create_source, create_sink: return the connector of a ContextResolvedTable.
    parse_query: parses the text of a view.
    is_streaming: False in batch mode.
    """

    tables: Tables
    functions: FunctionResolver
    settings: SessionSettings
    configuration: Any
    create_source: Callable[[Any], Any]
    create_sink: Callable[[Any], Any]
    parse_query: Callable[[str], ast.Query]
    is_streaming: bool = True
