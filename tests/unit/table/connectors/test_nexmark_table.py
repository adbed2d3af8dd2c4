"""The connector nexmark: its options, its schema, and what it takes over from queries."""

from __future__ import annotations

import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ValidationError
from flinkpy.connectors.nexmark import EventType, NexmarkOptions
from flinkpy.connectors.nexmark.schema import ALL_COLUMNS, row_type
from flinkpy.sql.rex import InputRef, Literal, RexCall
from flinkpy.sql.types.logical_types import BigIntType, BooleanType, IntType, RowType
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.connectors.nexmark import NexmarkTableFactory, NexmarkTableSource
from flinkpy.table.connectors.table_factory import FactoryContext
from flinkpy.table.connectors.table_options import TableOptions
from flinkpy.table.schema import Schema

ROWS = row_type(ALL_COLUMNS)


def table(options: dict[str, str], rows: RowType = ROWS) -> NexmarkTableSource:
    resolved = ContextResolvedTable(
        ObjectIdentifier("c", "d", "events"), CatalogTable(Schema.new_builder().build()), ResolvedSchema.of_row(rows)
    )
    checked = TableOptions(options, "table 'events'")
    factory = NexmarkTableFactory()
    checked.check("nexmark", factory.required_options, factory.optional_options)
    return factory.create_source(FactoryContext(resolved, checked, Configuration()))


def is_type(kind: int) -> RexCall:
    return RexCall(BooleanType(), "=", (InputRef(IntType(), 0), Literal(IntType(), kind)))


def test_options_of_a_table_are_those_of_the_source():
    made = table(
        {
            "first-event.rate": "100000",
            "next-event.rate": "100000",
            "events.num": "5",
            "bid.avg-size": "1kb",
            "keep-alive": "true",
            "stop-at": "-1",
            "max-emit-speed": "false",
        }
    )
    assert made.source().options == NexmarkOptions(
        100_000, 100_000, 5, bid_avg_size=1024, keep_alive=True, stop_at=None, max_emit_speed=False
    )
    assert table({}).source().options == NexmarkOptions()
    assert table({}).produced_type == ROWS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"event.num": "5"}, r"event\.num \(did you mean 'events\.num'\?\)"),
        ({"events.num": "five"}, r"Invalid value for option 'events\.num'"),
        ({"next-event.rate": "5"}, "the generator has one rate only"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        table(options)


def test_other_columns_are_refused_with_those_that_there_are():
    with pytest.raises(ValidationError, match=r"(?s)schema of \nROW<.*However, It is \nROW<`id` BIGINT> NOT NULL"):
        table({}, RowType.of(("id", BigIntType())))


def test_source_of_all_fields_takes_over_no_part_of_a_query():
    source = table({"fields": "all"})
    assert source.with_filters((is_type(1),)) is None
    assert source.with_projection(((0,),), RowType.of(("event_type", IntType()), nullable=False)) is None
    assert not source.supports_nested_projection
    with pytest.raises(ValidationError, match="expected one of needed, all"):
        table({"fields": "some"})


def test_nested_fields_become_columns_with_the_names_that_the_planner_chooses():
    produced = RowType.of(("bid_price", BigIntType()), ("event_type0", IntType()), nullable=False)
    source = table({"events.num": "5"}).with_projection(((3, 2), (0,)), produced)
    assert source.source().paths == (("bid", "price"), ("event_type",))
    assert source.produced_type == produced


def test_conditions_on_the_kind_of_events_are_taken_over_and_others_are_left():
    other = RexCall(BooleanType(), "IS NULL", (InputRef(ROWS.children[1], 1),))
    pushed = table({}).with_filters((is_type(2), other))
    assert pushed.accepted == (is_type(2),)
    assert pushed.remaining == (other,)
    assert pushed.source.source().event_types == {EventType.BID}
    either = RexCall(BooleanType(), "OR", (is_type(0), is_type(1)))
    assert table({}).with_filters((either,)).source.source().event_types == {EventType.PERSON, EventType.AUCTION}
    assert table({}).with_filters((other, RexCall(BooleanType(), "OR", (is_type(0), other)))) is None
