"""Joins of columns: when results are emitted, their columns, and the joins that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from streaming_fakes import OperatorHarness

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.batch_mode import batch_spec_of
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.streaming.operators.column_join import join_keys
from flinkpy.streaming.operators.column_join.build_side import MAX_PAIRS, BuildSide, WordIndex

LEFT = pa.RecordBatch.from_pydict({"id": [1, 2, None, 3], "name": ["one", "two", "none", "three"]})
RIGHT = pa.RecordBatch.from_pydict({"id": [2, 3, 3, None], "price": [20, 30, 33, 0]})


def join_spec(how: str = "inner", left: str = "id", right: str = "id", **more: Any) -> specs.ColumnJoinSpec:
    return specs.ColumnJoinSpec((specs.FieldKeySelector((left,)), specs.FieldKeySelector((right,))), how=how, **more)


def started(spec: specs.ColumnJoinSpec, memory: str = "1 mb") -> OperatorHarness:
    return OperatorHarness(spec, configuration={"execution.batch.column-operator.memory": memory})


def feed(harness: OperatorHarness, columns: pa.RecordBatch, input_index: int) -> None:
    harness.operator.process_batch(Batch(columns), input_index)


def results(harness: OperatorHarness) -> list[dict[str, Any]]:
    batches = [item.values for item in harness.output.items if isinstance(item, Batch)]
    return [row for batch in batches for row in batch.to_pylist()]


def finish(harness: OperatorHarness, *inputs: int) -> list[dict[str, Any]]:
    for index in inputs:
        harness.operator.end_input(index)
    harness.operator.finish()
    harness.operator.close()
    return results(harness)


INNER = [
    {"id": 2, "name": "two", "price": 20},
    {"id": 3, "name": "three", "price": 30},
    {"id": 3, "name": "three", "price": 33},
]


def test_results_are_emitted_at_once_when_the_right_side_is_complete() -> None:
    harness = started(join_spec())
    feed(harness, LEFT.slice(0, 2), 0)
    feed(harness, RIGHT, 1)
    assert results(harness) == []

    harness.operator.end_input(1)
    assert results(harness) == INNER[:1], "the waiting rows"
    feed(harness, LEFT.slice(2), 0)
    assert results(harness) == INNER
    assert finish(harness, 0) == INNER


def test_the_watermark_comes_after_the_results() -> None:
    harness = started(join_spec(), memory="1 b")
    feed(harness, RIGHT, 1)
    feed(harness, LEFT, 0)
    harness.operator.process_element(Watermark(MAX_WATERMARK))
    assert harness.output.items == []

    assert sorted(finish(harness, 1, 0), key=str) == sorted(INNER, key=str)
    assert harness.output.items[-1] == Watermark(MAX_WATERMARK)


@pytest.mark.parametrize("memory", ["1 b", "1 mb"])
def test_rows_without_a_partner_get_nulls_and_null_keys_match_nothing(memory: str) -> None:
    harness = started(join_spec("left"), memory)
    feed(harness, RIGHT, 1)
    feed(harness, LEFT, 0)

    unmatched = [{"id": 1, "name": "one", "price": None}, {"id": None, "name": "none", "price": None}]
    assert sorted(finish(harness, 1, 0), key=str) == sorted([*INNER, *unmatched], key=str)


def test_a_right_key_with_another_name_stays_in_the_results() -> None:
    harness = started(join_spec(right="key"))
    feed(harness, RIGHT.rename_columns(["key", "price"]), 1)
    feed(harness, LEFT.slice(1, 1), 0)

    assert finish(harness, 1, 0) == [{"id": 2, "name": "two", "key": 2, "price": 20}]


def test_a_column_name_of_both_sides_is_an_error_unless_only_the_left_side_is_emitted() -> None:
    twice = RIGHT.rename_columns(["id", "name"])
    harness = started(join_spec())
    feed(harness, twice, 1)
    feed(harness, LEFT, 0)
    with pytest.raises(TypeMismatchError, match=r"both sides have columns \['name'\]"):
        harness.operator.end_input(1)

    harness = started(join_spec("semi"))
    feed(harness, twice, 1)
    feed(harness, LEFT, 0)
    assert [row["id"] for row in finish(harness, 1, 0)] == [2, 3]


def test_keys_of_incompatible_types_are_an_error() -> None:
    harness = started(join_spec(right="price"))
    feed(harness, pa.RecordBatch.from_pydict({"price": ["2"]}), 1)
    feed(harness, LEFT, 0)
    with pytest.raises(TypeMismatchError, match="key column 'id' is int64 on the left and string on the right"):
        harness.operator.end_input(1)


def test_a_right_side_without_rows_has_its_declared_columns() -> None:
    right = Types.ROW_NAMED(["id", "price"], [Types.LONG(), Types.DOUBLE()])
    for how, expected in (
        ("inner", []),
        ("anti", LEFT.to_pylist()),
        ("left", [{**r, "price": None} for r in LEFT.to_pylist()]),
    ):
        harness = started(join_spec(how, input_types=(None, right)))
        feed(harness, LEFT, 0)
        assert finish(harness, 1, 0) == expected

    harness = started(join_spec("left"))
    feed(harness, LEFT, 0)
    with pytest.raises(UnsupportedOperationError, match="declare the type of the right stream"):
        harness.operator.end_input(1)


@pytest.mark.parametrize("memory", ["10 kb", "64 mb"])
def test_many_pairs_of_one_key_are_emitted_in_bounded_batches(memory: str) -> None:
    harness = started(join_spec(), memory)
    count = 600
    feed(harness, pa.RecordBatch.from_pydict({"id": [7] * count, "price": list(range(count))}), 1)
    feed(harness, pa.RecordBatch.from_pydict({"id": [7] * count, "name": list(range(count))}), 0)

    pairs = {(row["name"], row["price"]) for row in finish(harness, 1, 0)}
    assert len(pairs) == count * count
    assert max(item.num_rows for item in harness.output.items if isinstance(item, Batch)) <= MAX_PAIRS


def test_keys_with_equal_hashes_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_keys, "hash_words", lambda columns: np.zeros(len(columns[0]), dtype=np.uint64))
    names = ["b", "a", "c", "a", "b"]
    columns = pa.table({"name": names})
    types = [pa.string()]
    side = BuildSide(columns, join_keys.JoinKeys([pa.array(names)], types))
    slots = side.slots_of(join_keys.JoinKeys([pa.array(["a", "x", "b", None, "c"])], types))

    pairs = [(int(row), int(mine)) for rows, others in side.pairs(slots, False) for row, mine in zip(rows, others)]
    assert pairs == [(0, 1), (0, 3), (2, 0), (2, 4), (4, 2)]


def test_words_are_found_with_all_their_rows() -> None:
    random = np.random.default_rng(7)
    words = random.integers(-(1 << 63), (1 << 63) - 1, 3_000)
    words[1_000:2_000] = words[:1_000]
    words[2_000:2_500] = np.arange(500)
    index = WordIndex(words)
    found = index.find(words)
    for row in range(0, 3_000, 97):
        start, count = index.starts[found[row]], index.counts[found[row]]
        assert index.order[start : start + count].tolist() == np.flatnonzero(words == words[row]).tolist()
    missing = random.integers(-(1 << 63), (1 << 63) - 1, 3_000)
    assert (index.find(missing) == -1).all()
    assert WordIndex(words[:0]).find(words).max() == -1


def test_checkpoints_and_updates_are_refused() -> None:
    harness = started(join_spec())
    with pytest.raises(UnsupportedOperationError, match="does not support checkpoints"):
        harness.operator.snapshots(1, checkpoint_pb2.CheckpointOptions())
    with pytest.raises(UnsupportedOperationError, match="only inserts"):
        harness.operator.process_batch(Batch(LEFT, None, np.ones(4, dtype=np.int8)), 0)
    harness.operator.close()


def test_batch_mode_uses_the_same_operator() -> None:
    spec = join_spec()
    harness = OperatorHarness(batch_spec_of(spec) or spec)
    feed(harness, RIGHT, 1)
    harness.operator.end_input(1)
    feed(harness, LEFT, 0)

    assert results(harness) == INNER
    harness.operator.close()
