from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from table_subtasks import Change, TableSubtasks, row_info

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import JoinType, KeyedLookupJoinSpec, LookupCacheOptions, LookupJoinSpec
from flinkpy.sql.rex import InputRef, Literal, RexCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.connectors.table_source import LookupFunction

INPUT = row_info(k=lt.BigIntType(), a=lt.IntType())
TABLE = row_info(id=lt.BigIntType(), name=lt.VarCharType(lt.MAX_LENGTH))
OUTPUT = row_info(k=lt.BigIntType(), a=lt.IntType(), id=lt.BigIntType(), name=lt.VarCharType(lt.MAX_LENGTH))
KEY = ((0, InputRef(lt.BigIntType(), 0)),)
TEXT = lt.VarCharType(lt.MAX_LENGTH)


def found_rows(found: list[tuple[int, int, str]]) -> tuple[np.ndarray, pa.RecordBatch]:
    """Returns rows (position of the key, id, name) in the form that a LookupFunction gives them."""
    columns = [pa.array([row[i] for row in found], kind) for i, kind in ((1, pa.int64()), (2, pa.string()))]
    return np.array([row[0] for row in found], dtype=np.int64), pa.RecordBatch.from_arrays(
        columns, names=["id", "name"]
    )


class Names(LookupFunction):
    """Finds n rows for the key n. Remembers what it was asked, and begins to find a key at its n-th call."""

    def __init__(self) -> None:
        self.asked: list[list[Any]] = []
        self.first_call: dict[int, int] = {}

    def open(self, context: Any) -> None:
        assert context.get_number_of_parallel_subtasks() == 1

    def lookup(self, keys: pa.RecordBatch) -> tuple[np.ndarray, pa.RecordBatch]:
        values = keys.column(0).to_pylist()
        self.asked.append(values)
        return found_rows(
            [
                (place, key, f"{key}.{n}")
                for place, key in enumerate(values)
                if len(self.asked) >= self.first_call.get(key, 0)
                for n in range(key)
            ]
        )

    def close(self) -> None:
        self.asked.append(["closed"])


def started(join_type: JoinType = JoinType.LEFT, **options: Any) -> tuple[TableSubtasks, Names]:
    names = Names()
    spec = LookupJoinSpec(names, join_type, KEY, TABLE, input_types=(INPUT,), output_type=OUTPUT, **options)
    return TableSubtasks(spec, selectors=(FieldKeySelector(()),)), names


def rows(*keys: int | None) -> list[Change]:
    return [("+I", key, 0) for key in keys]


def test_each_distinct_key_of_a_batch_is_looked_up_once():
    join, names = started()
    changes = [("+I", 2, 0), ("-U", None, 1), ("+U", 0, 2), ("+I", 2, 3), ("-D", 1, 4)]

    assert join.process(changes) == [
        ("+I", 2, 0, 2, "2.0"),
        ("+I", 2, 0, 2, "2.1"),
        ("-U", None, 1, None, None),
        ("+U", 0, 2, None, None),
        ("+I", 2, 3, 2, "2.0"),
        ("+I", 2, 3, 2, "2.1"),
        ("-D", 1, 4, 1, "1.0"),
    ]
    join.close()
    assert names.asked == [[2, 0, 1], ["closed"]]


def test_an_inner_join_drops_rows_that_find_nothing():
    join, names = started(JoinType.INNER)

    assert join.process(rows(None)) == []
    assert join.process(rows(0, 1)) == [("+I", 1, 0, 1, "1.0")]
    assert names.asked == [[0, 1]]


def test_conditions_of_the_table_and_of_the_pair_are_met():
    second = RexCall(lt.BooleanType(), "<>", (InputRef(TEXT, 1), Literal(TEXT, "2.0")))
    smaller = RexCall(lt.BooleanType(), "<", (InputRef(lt.IntType(), 1), InputRef(lt.BigIntType(), 2)))
    join, _ = started(condition=second, join_condition=smaller)

    assert join.process([("+I", 2, 1), ("+I", 2, 2)]) == [("+I", 2, 1, 2, "2.1"), ("+I", 2, 2, None, None)]


def test_keys_that_find_nothing_are_asked_again_up_to_the_number_of_retries():
    join, names = started(retry=(0, 2))
    names.first_call = {2: 2, 3: 9}

    assert {row[1:4:2] for row in join.process(rows(1, 2, 3))} == {(1, 1), (2, 2), (3, None)}
    assert names.asked == [[1, 2, 3], [2, 3], [3]]


def test_other_joins_are_refused():
    with pytest.raises(UnsupportedOperationError, match="INNER or LEFT"):
        started(JoinType.FULL)


# -- the cache -------------------------------------------------------------------------------------------------------


def test_known_keys_are_not_asked_even_those_without_rows():
    join, names = started(cache=LookupCacheOptions())
    first = join.process(rows(2, 0, 1))

    assert join.process(rows(1, 3, 0, 2)) == [
        first[3],
        *(("+I", 3, 0, 3, f"3.{n}") for n in range(3)),
        first[2],
        *first[:2],
    ]
    assert names.asked == [[2, 0, 1], [3]]


def test_keys_without_rows_are_asked_again_if_the_cache_does_not_keep_them():
    join, names = started(cache=LookupCacheOptions(caches_missing_keys=False))
    join.process(rows(0, 1))
    join.process(rows(0, 1))

    assert names.asked == [[0, 1], [0]]


def test_rows_are_looked_up_anew_after_their_lifetime():
    join, names = started(cache=LookupCacheOptions(expire_after_write_ms=100, expire_after_access_ms=60))
    join.process(rows(1, 2))
    join.clock.advance(59)
    join.process(rows(1))
    join.clock.advance(40)
    # The key 2 was not used for too long.
    join.process(rows(1, 2))
    join.clock.advance(1)
    # The key 1 was looked up too long ago.
    join.process(rows(1, 2))

    assert names.asked == [[1, 2], [2], [1]]


def test_expired_keys_are_dropped_even_if_they_are_not_asked_for_again():
    join, _ = started(cache=LookupCacheOptions(expire_after_write_ms=100))
    join.process(rows(1, 2))
    join.clock.advance(60)
    join.process(rows(3))
    join.clock.advance(40)
    join.process(rows(4))

    assert join.operators[0]._joiner._cache.num_keys == 2
    join.close()


def test_a_full_cache_drops_the_keys_that_were_not_used_for_the_longest_time():
    join, names = started(cache=LookupCacheOptions(max_rows=3))
    for key in (1, 2, 3, 1, 4, 1, 3, 4, 2):
        join.clock.advance(1)
        join.process(rows(key))

    assert names.asked == [[1], [2], [3], [4], [2]]
    assert join.operators[0]._joiner._cache.num_keys == 3


# -- updates of the input --------------------------------------------------------------------------------------------


def keyed_join(join_type: JoinType, names: Names, **options: Any) -> KeyedLookupJoinSpec:
    types = {"input_types": (INPUT,), "output_type": OUTPUT}
    join = LookupJoinSpec(names, join_type, KEY, TABLE, **types)
    return KeyedLookupJoinSpec(FieldKeySelector(("a",)), (1,), join, **options, **types)


def test_a_row_whose_result_is_no_longer_known_is_taken_back_without_one():
    join = TableSubtasks(keyed_join(JoinType.LEFT, Names(), state_ttl_ms=100))
    assert join.process([("+I", 1, 7)]) == [("+I", 1, 7, 1, "1.0")]
    join.clock.advance(100)

    assert join.process([("-D", 1, 7)]) == [("-D", 1, 7, None, None)]
    join.close()
