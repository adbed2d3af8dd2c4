"""Selectors that only pick a field are recognised and have the same results as a call."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

import pytest

from flinkpy.common import Types
from flinkpy.common.types import Row
from flinkpy.network.partitioner import KeyGroupStreamPartitioner, keys_of
from flinkpy.records.batch import Batch
from flinkpy.records.key_selection import picked_column, picker_of, select_keys
from flinkpy.records.lanes import rows_with_field, to_columns


class Bid(NamedTuple):
    auction: int
    price: int


class Picks:
    def get_key(self, value: Any) -> Any:
        """A docstring, which is a constant of the code too."""
        return value[1]

    def get_name(self, value: Any) -> Any:
        return value.price


def documented(value: Any) -> Any:
    """A docstring."""
    return value["auction"]


ROWS: dict[str, list[Any]] = {
    "item": [Bid(1, 2), Bid(3, 4)],
    "name": [{"auction": 1}, {"auction": 2}],
}


@pytest.mark.parametrize(
    ("get_key", "rows", "keys"),
    [
        (lambda v: v[0], ROWS["item"], [1, 3]),
        (lambda v: v[-1], ROWS["item"], [2, 4]),
        (lambda v: v["auction"], ROWS["name"], [1, 2]),
        (lambda v: v.auction, ROWS["item"], [1, 3]),
        (lambda v: v.auction, [Row(auction=5, price=6)], [5]),
        (documented, ROWS["name"], [1, 2]),
        (Picks().get_key, ROWS["item"], [2, 4]),
        (Picks().get_name, ROWS["item"], [2, 4]),
    ],
)
def test_functions_that_pick_a_field_are_recognised(get_key: Any, rows: list[Any], keys: list[Any]) -> None:
    pick = picker_of(get_key)
    assert pick is not None
    assert select_keys(get_key, pick, rows) == [get_key(row) for row in rows] == keys


NUMBER = 0


@pytest.mark.parametrize(
    "get_key",
    [
        lambda v: v,
        lambda v: v[0] + 1,
        lambda v: v[0][0],
        lambda v: v[NUMBER],
        lambda v: v[0:1],
        lambda v: (v[0],),
        lambda v, other=1: v[0],
        lambda *v: v[0],
        lambda v: -v[0],
        lambda v: v.auction.real,
        Bid._asdict,
        str,
        Picks,
    ],
)
def test_other_functions_are_called(get_key: Any) -> None:
    assert picker_of(get_key) is None


def test_closure_with_a_variable_index_is_called() -> None:
    def selector(index: int) -> Any:
        return lambda v: v[index]

    assert picker_of(selector(1)) is None


def test_failing_selector_shows_its_own_line() -> None:
    def get_key(value: Any) -> Any:
        return value["no such field"]

    with pytest.raises(KeyError) as caught:
        select_keys(get_key, picker_of(get_key), [{"auction": 1}])
    assert 'return value["no such field"]' in "".join(traceback.format_tb(caught.tb))


PERSON = Types.ROW_NAMED(
    ["id", "name", "height", "as_dict", "total"],
    [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.LONG(), Types.BIG_INT()],
)
COUNT = Types.TUPLE([Types.STRING(), Types.INT()])


@pytest.mark.parametrize(
    ("get_key", "key_type", "type_info", "position"),
    [
        (lambda v: v["name"], Types.STRING(), PERSON, 1),
        (lambda v: v.name, None, PERSON, 1),
        (lambda v: v[0], Types.INT(), PERSON, 0),
        (lambda v: v[1], Types.LONG(), COUNT, 1),
        (lambda v: v[0], Types.DOUBLE(), PERSON, None),  # 1 would become 1.0
        (lambda v: v[2], Types.DOUBLE(), PERSON, None),  # 0.0 and -0.0 are one key
        (lambda v: v[4], Types.BIG_INT(), PERSON, None),  # the column has decimals
        (lambda v: v.as_dict, Types.LONG(), PERSON, None),  # a method of Row
        (lambda v: v["unknown"], Types.LONG(), PERSON, None),
        (lambda v: v[-1], Types.INT(), COUNT, None),
        (lambda v: v[2], Types.INT(), COUNT, None),
        (lambda v: v["f0"], Types.STRING(), COUNT, None),  # a tuple has no names
        (lambda v: v[0] + 1, Types.LONG(), PERSON, None),
        (lambda v: v[0], Types.LONG(), Types.LIST(Types.LONG()), None),
    ],
)
def test_a_picked_field_is_a_column_if_its_values_are_the_keys(
    get_key: Any, key_type: Any, type_info: Any, position: int | None
) -> None:
    assert picked_column(get_key, key_type, type_info) == position


def by_channel(partitioner: KeyGroupStreamPartitioner, batch: Batch, type_info: Any) -> list[tuple[int, list[Any]]]:
    return [
        (channel, keys_of(part, partitioner.key_selector, type_info))
        for channel, part in partitioner.split(batch, type_info)
    ]


@pytest.mark.parametrize("field", [0, 1, "id", "name"])
@pytest.mark.parametrize("has_null", [False, True])
def test_records_in_columns_go_where_records_as_rows_go(field: int | str, has_null: bool) -> None:
    rows = [Row(number, f"n{number}", 0.5, 1, 2) for number in range(50)]
    if has_null:
        rows[7] = Row(None, None, 0.5, 1, 2)
    for row in rows:
        row.set_field_names(PERSON.get_field_names())
    # A selector that does more than to pick a field gets the records.
    partitioners = [KeyGroupStreamPartitioner(get_key) for get_key in (itself(field), lambda row: (row, row[field])[1])]
    for partitioner in partitioners:
        partitioner.setup(4, max_parallelism=128)
    columns = to_columns(Batch(rows), PERSON)
    picked, called = (by_channel(partitioner, columns, PERSON) for partitioner in partitioners)
    assert picked == called == by_channel(partitioners[1], Batch(rows), PERSON)


def itself(field: int | str) -> Any:
    return {0: lambda v: v[0], 1: lambda v: v[1], "id": lambda v: v["id"], "name": lambda v: v["name"]}[field]


def test_records_are_decoded_with_one_of_their_fields() -> None:
    rows = [("a", 1), ("b", 2)]
    assert rows_with_field(to_columns(Batch(rows), COUNT), COUNT, 1) == (rows, [1, 2])
