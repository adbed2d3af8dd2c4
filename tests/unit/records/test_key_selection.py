"""Selectors that only pick a field are recognised and have the same results as a call."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

import pytest

from flinkpy.common.types import Row
from flinkpy.records.key_selection import picker_of, select_keys


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
