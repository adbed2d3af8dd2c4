"""TableFactory: makes table sources and sinks from the options of a table; found by the option `connector`.

Source: org.apache.flink.table.factories.{DynamicTableSourceFactory, DynamicTableSinkFactory}.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.configuration.options import ConfigOption
    from flinkpy.table.catalog.catalog_tables import ContextResolvedTable
    from flinkpy.table.connectors.table_options import TableOptions
    from flinkpy.table.connectors.table_sink import DynamicTableSink
    from flinkpy.table.connectors.table_source import DynamicTableSource


@dataclass(frozen=True, slots=True)
class FactoryContext:
    """The table that a factory makes a source or sink for.

    Attributes:
        table: the table with its resolved schema.
        options: the checked options of the table.
        configuration: that of the environment.
        is_bounded: True in batch mode.
    """

    table: ContextResolvedTable
    options: TableOptions
    configuration: Configuration
    is_bounded: bool = False


class TableFactory(ABC):
    """A connector. Subclasses set the attributes and implement the methods that make sense.

    A package offers one as an entry point of the group `flinkpy.table.factories`: its name is the identifier, its value
    is the class.

    Attributes:
        identifier: the value of the option `connector`.
        required_options, optional_options: its options. Options of formats are checked by their formats.
        option_prefixes: options that begin so are passed on without a check, such as `properties.` of Kafka.
    """

    identifier: str
    required_options: Sequence[ConfigOption[Any]] = ()
    optional_options: Sequence[ConfigOption[Any]] = ()
    option_prefixes: Sequence[str] = ()

    @property
    def is_source(self) -> bool:
        return type(self).create_source is not TableFactory.create_source

    @property
    def is_sink(self) -> bool:
        return type(self).create_sink is not TableFactory.create_sink

    def create_source(self, context: FactoryContext) -> DynamicTableSource:
        """Returns the source. Raises: ValidationError if the schema or options do not fit."""
        raise ValidationError(
            f"Connector '{self.identifier}' can only be used as a sink. It cannot be used as a source."
        )

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        raise ValidationError(
            f"Connector '{self.identifier}' can only be used as a source. It cannot be used as a sink."
        )
