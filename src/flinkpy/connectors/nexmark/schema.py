"""The columns of Nexmark's events.

| column | type |
|---|---|
| event_type | INT: 0 for a person, 1 for an auction, 2 for a bid |
| person | ROW<id, name, emailAddress, creditCard, city, state, dateTime, extra>, null for other events |
| auction | ROW<id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra> |
| bid | ROW<auction, bidder, price, channel, url, dateTime, extra> |
"""

from __future__ import annotations

import enum

import pyarrow as pa

from flinkpy.sql.types.logical_types import BigIntType, IntType, LogicalType, RowType, TimestampType, VarCharType


class EventType(enum.IntEnum):
    """The value of the column `event_type`."""

    PERSON = 0
    AUCTION = 1
    BID = 2


ALL_TYPES = frozenset(EventType)

_LONG = BigIntType()
_TEXT = VarCharType()
_TIME = TimestampType(3)
EVENT_TYPE = "event_type"
#: The fields of each kind of event, in the order of the columns.
FIELDS: dict[str, dict[str, LogicalType]] = {
    "person": {
        "id": _LONG,
        "name": _TEXT,
        "emailAddress": _TEXT,
        "creditCard": _TEXT,
        "city": _TEXT,
        "state": _TEXT,
        "dateTime": _TIME,
        "extra": _TEXT,
    },
    "auction": {
        "id": _LONG,
        "itemName": _TEXT,
        "description": _TEXT,
        "initialBid": _LONG,
        "reserve": _LONG,
        "dateTime": _TIME,
        "expires": _TIME,
        "seller": _LONG,
        "category": _LONG,
        "extra": _TEXT,
    },
    "bid": {
        "auction": _LONG,
        "bidder": _LONG,
        "price": _LONG,
        "channel": _TEXT,
        "url": _TEXT,
        "dateTime": _TIME,
        "extra": _TEXT,
    },
}

#: A column, or a field of one: ("event_type",), ("bid",), ("bid", "price").
Path = tuple[str, ...]
ALL_COLUMNS: tuple[Path, ...] = ((EVENT_TYPE,), ("person",), ("auction",), ("bid",))

_ARROW = {_LONG: pa.int64(), _TEXT: pa.string(), _TIME: pa.timestamp("ms")}


def logical_type(path: Path) -> LogicalType:
    """Returns the type of a column. Raises: KeyError if there is none."""
    if path == (EVENT_TYPE,):
        return IntType()
    fields = FIELDS[path[0]]
    if len(path) == 1:
        return RowType.of(*fields.items())
    (name,) = path[1:]
    return fields[name]


def arrow_type(path: Path) -> pa.DataType:
    """Returns the Arrow type of a column."""
    if path == (EVENT_TYPE,):
        return pa.int32()
    if len(path) == 1:
        return pa.struct([pa.field(name, _ARROW[kind]) for name, kind in FIELDS[path[0]].items()])
    return _ARROW[logical_type(path)]


def names_of(paths: tuple[Path, ...]) -> tuple[str, ...]:
    """Returns names of columns. That of a nested field is its path, as in `bid_price`."""
    return tuple("_".join(path) for path in paths)


def row_type(paths: tuple[Path, ...], names: tuple[str, ...] | None = None) -> RowType:
    """Returns the type of rows with these columns."""
    return RowType.of(*zip(names or names_of(paths), map(logical_type, paths)), nullable=False)


def arrow_schema(paths: tuple[Path, ...], names: tuple[str, ...] | None = None) -> pa.Schema:
    return pa.schema(list(zip(names or names_of(paths), map(arrow_type, paths))))
