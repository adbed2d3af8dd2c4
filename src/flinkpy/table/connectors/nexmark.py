"""The connector `nexmark`: a table of the events of the Nexmark benchmark.

Source: com.github.nexmark.flink.source.{NexmarkTableSource,NexmarkTableSourceFactory}. Differs: the source takes over
projections, of nested fields too, and conditions on `event_type`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import ConfigurationError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connectors.nexmark.options import NexmarkOptions
from flinkpy.connectors.nexmark.schema import ALL_COLUMNS, ALL_TYPES, EVENT_TYPE, FIELDS, EventType, Path, row_type
from flinkpy.connectors.nexmark.source import NexmarkSource
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_source import FilterPushDown, ScanTableSource

_INT, _SIZE, _BOOL = OptionType.INT, OptionType.MEMORY, OptionType.BOOL

#: For each field of NexmarkOptions the option of tables.
_OPTIONS: dict[str, ConfigOption[Any]] = {
    "first_event_rate": ConfigOption("first-event.rate", _INT, 10_000, "Events of event time per second.", minimum=1),
    "next_event_rate": ConfigOption("next-event.rate", _INT, None, "The same rate."),
    "num_events": ConfigOption("events.num", _INT, 0, "The number of events; 0 for no end.", minimum=0),
    "person_proportion": ConfigOption("person.proportion", _INT, 1, "The share of persons.", minimum=1),
    "auction_proportion": ConfigOption("auction.proportion", _INT, 3, "The share of auctions.", minimum=1),
    "bid_proportion": ConfigOption("bid.proportion", _INT, 46, "The share of bids.", minimum=1),
    "person_avg_size": ConfigOption("person.avg-size", _SIZE, 200, "The average size of a person."),
    "auction_avg_size": ConfigOption("auction.avg-size", _SIZE, 500, "The average size of an auction."),
    "bid_avg_size": ConfigOption("bid.avg-size", _SIZE, 100, "The average size of a bid."),
    "hot_auction_ratio": ConfigOption("bid.hot-ratio.auctions", _INT, 2, "1 of this number of bids: any auction."),
    "hot_bidders_ratio": ConfigOption("bid.hot-ratio.bidders", _INT, 4, "1 of this number of bids: any bidder."),
    "hot_sellers_ratio": ConfigOption(
        "auction.hot-ratio.sellers", _INT, 4, "1 of this number of auctions: any seller."
    ),
    "max_emit_speed": ConfigOption("max-emit-speed", _BOOL, True, "False to emit events when their time has come."),
    "keep_alive": ConfigOption("keep-alive", _BOOL, False, "True to go on after the last event."),
    "stop_at": ConfigOption("stop-at", _INT, -1, "Stop after this number of events; -1 for no stop.", minimum=-1),
    "base_time_ms": ConfigOption("base-time", _INT, None, "The first event time in ms; by default that of the start."),
}

#: Beyond Nexmark's own options.
_GENERATED_FIELDS: ConfigOption[Any] = ConfigOption(
    "fields",
    OptionType.ENUM,
    "needed",
    "`needed` to generate the fields that the query reads. `all` to generate all fields of all events, as Nexmark does "
    "on Flink; the query drops what it does not read.",
    choices=("needed", "all"),
)


class NexmarkTableFactory(TableFactory):
    """Makes tables with the columns of Nexmark's events, which the DDL has to declare."""

    identifier = "nexmark"
    optional_options: Sequence[ConfigOption[Any]] = (*_OPTIONS.values(), _GENERATED_FIELDS)

    def create_source(self, context: FactoryContext) -> NexmarkTableSource:
        declared = context.table.resolved_schema.to_physical_row_type()
        expected = row_type(ALL_COLUMNS)
        if declared != expected:
            raise ValidationError(
                f"The nexmark source table must be in the schema of \n{expected}\n. However, It is \n{declared}\n"
            )
        values = {name: context.options.get(option) for name, option in _OPTIONS.items()}
        if values["stop_at"] < 0:
            values["stop_at"] = None
        try:
            source = NexmarkSource(NexmarkOptions(**values))
            return NexmarkTableSource(source, context.options.get(_GENERATED_FIELDS) == "all")
        except ConfigurationError as error:
            raise ValidationError(str(error)) from error


@dataclass(frozen=True, slots=True)
class NexmarkTableSource(ScanTableSource):
    """The table, or the fields of it that a query needs.

    Attributes:
        has_all_fields: True to take over nothing of a query.
    """

    nexmark: NexmarkSource
    has_all_fields: bool = False

    @property
    def summary(self) -> str:
        return "Nexmark Source"

    @property
    def produced_type(self) -> RowType:
        return self.nexmark.produced_type.row_type

    def source(self) -> NexmarkSource:
        return self.nexmark

    @property
    def supports_nested_projection(self) -> bool:
        return not self.has_all_fields

    def with_projection(self, paths: tuple[tuple[int, ...], ...], produced_type: RowType) -> NexmarkTableSource | None:
        if self.has_all_fields:
            return None
        fields = [_path(self.nexmark.paths, path) for path in paths]
        return NexmarkTableSource(self.nexmark.with_fields(fields, produced_type.names))

    def with_filters(self, filters: tuple[RexNode, ...]) -> FilterPushDown | None:
        if self.has_all_fields:
            return None
        kept = self.nexmark.event_types
        accepted = []
        for condition in filters:
            wanted = _event_types(condition, self.produced_type)
            if wanted is not None:
                kept &= wanted
                accepted.append(condition)
        if not accepted:
            return None
        source = NexmarkTableSource(self.nexmark.with_event_types(kept))
        return FilterPushDown(source, tuple(accepted), tuple(each for each in filters if each not in accepted))


def _path(paths: tuple[Path, ...], positions: tuple[int, ...]) -> Path:
    first, *nested = positions
    path = paths[first]
    for position in nested:
        path = (*path, list(FIELDS[path[0]])[position])
    return path


def _event_types(condition: RexNode, rows: RowType) -> frozenset[EventType] | None:
    """Returns the kinds of events for which a condition on `event_type` is true; None for other conditions."""
    if not isinstance(condition, RexCall):
        return None
    if condition.function == "OR":
        each = [_event_types(argument, rows) for argument in condition.arguments]
        return None if None in each else frozenset().union(*[kinds for kinds in each if kinds is not None])
    if condition.function not in ("=", "IN"):
        return None
    column, *values = condition.arguments
    if condition.function == "=" and isinstance(column, Literal):
        column, values = values[0], [column]
    if not isinstance(column, InputRef) or rows.names[column.index] != EVENT_TYPE:
        return None
    wanted = {value.value for value in values if isinstance(value, Literal)}
    if not all(isinstance(value, Literal) for value in values):
        return None
    return frozenset(kind for kind in ALL_TYPES if kind in wanted)
