"""Split aggregates of distinct values have the results of GROUP BY, with and without incremental aggregation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from table_subtasks import BACKEND, Change, TableSubtasks, materialised

from flinkpy.graph.operator_specs import FieldKeySelector, OperatorSpec
from flinkpy.graph.transformation import OperatorTransformation, Transformation
from flinkpy.records.key_hash import hash_columns
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.physical.translation import Translator
from tests.unit.table.planner.planning import PlannerFixture

_OPTIONS = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.size": "8",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "table.optimizer.distinct-agg.split.bucket-num": "3",
}
_Row = tuple[Any, ...]


def _values(rows: list[_Row], place: int) -> list[int]:
    return [row[place] for row in rows if row[place] is not None]


def _bucket(value: int | None) -> int:
    hashed = int(hash_columns([pa.array([value], pa.int64())]).view(np.int32)[0])
    return hashed % 3 if hashed >= 0 else -(-hashed % 3)


def _whole(rows: list[_Row]) -> _Row:
    total, highest = _values(rows, 1), max(_values(rows, 1), default=None)
    filtered = {row[1] for row in rows if row[1] is not None and (row[2] or 0) > 1}
    distinct = set(_values(rows, 2))
    return (
        len(rows),
        sum(total) if total else None,
        highest,
        len(set(total)),
        len(filtered),
        sum(distinct) if distinct else None,
    )


#: The key of a row, the aggregates of a group, and the query.
_QUERIES: tuple[tuple[Callable[[_Row], _Row], Callable[[list[_Row]], _Row], str], ...] = (
    (
        lambda row: (row[0],),
        _whole,
        (
            "SELECT k, COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT v), COUNT(DISTINCT v) FILTER (WHERE w > 1), "
            "SUM(DISTINCT w) FROM t GROUP BY k"
        ),
    ),
    (
        lambda row: (row[0],),
        lambda rows: (len(set(_values(rows, 1))), sum(_values(rows, 2)) if _values(rows, 2) else None),
        "SELECT k, COUNT(DISTINCT v), SUM(w) FROM t GROUP BY k",
    ),
    # A key of the query that looks like a bucket is none.
    (
        lambda row: (row[0], _bucket(row[1])),
        lambda rows: (len(set(_values(rows, 1))), len(set(_values(rows, 2)))),
        "SELECT k, MOD(HASH_CODE(v), 3), COUNT(DISTINCT v), COUNT(DISTINCT w) FROM t GROUP BY k, MOD(HASH_CODE(v), 3)",
    ),
    (
        lambda row: (row[0], _bucket(row[1])),
        lambda rows: (len(set(_values(rows, 1))), len(rows)),
        "SELECT k, MOD(HASH_CODE(v), 3), COUNT(DISTINCT v), COUNT(*) FROM t GROUP BY k, MOD(HASH_CODE(v), 3)",
    ),
)


@cache
def operators(query: str, *, is_incremental: bool) -> list[OperatorSpec]:
    """Returns the operators of a query over a table t, behind its source, the first one first."""
    planner = PlannerFixture()
    planner.table("t", "k INT", "v BIGINT", "w BIGINT")
    options = {**_OPTIONS, "table.optimizer.incremental-agg-enabled": str(is_incremental).lower()}
    for key, value in options.items():
        planner.configuration.set_string(key, value)
    translator = _WithoutSource(planner.planner._translation_settings())
    plan = planner.planner._physical([planner.operation(query)], requires_update_before=True)[0]
    found: list[OperatorSpec] = []
    node: Transformation = translator.translate(plan)
    while node.inputs:
        if isinstance(node, OperatorTransformation):
            found.insert(0, node.spec)
        node = node.inputs[0]
    return found


class _WithoutSource(Translator):
    def _translate(self, node: ph.PhysicalNode) -> Transformation:  # type: ignore[override]
        if isinstance(node, ph.TableSourceScan):
            return OperatorTransformation("source", OperatorSpec(), [])
        return super()._translate(node)


def expected(number: int, rows: list[_Row]) -> dict[_Row, int]:
    key_of, aggregated, _ = _QUERIES[number]
    groups: dict[_Row, list[_Row]] = {}
    for row in rows:
        groups.setdefault(key_of(row), []).append(row)
    return {(*key, *aggregated(members)): 1 for key, members in groups.items()}


class Pipeline:
    """Operators one behind the other. Those with a key have several subtasks, and are stopped and started again."""

    def __init__(self, found: list[OperatorSpec], backend: str, parallelism: int) -> None:
        nowhere = (FieldKeySelector(()),)
        self._subtasks = [
            TableSubtasks(each, backend, parallelism)
            if hasattr(each, "key_selector")
            else TableSubtasks(each, selectors=nowhere)
            for each in found
        ]
        self.output: list[Change] = []

    def process(self, changes: list[Change], first: int = 0) -> None:
        for each in self._subtasks[first:]:
            changes = each.process(changes) if changes else []
        self.output += changes

    def flush(self, *, restart: int | None) -> None:
        """Ends all mini-batches, and starts keyed operators again with another parallelism."""
        for place, each in enumerate(self._subtasks):
            self.process(each.prepare_snapshot(), place + 1)
            if restart is not None and hasattr(each.spec, "key_selector"):
                self._subtasks[place] = each.restart(restart)

    def close(self) -> None:
        for each in self._subtasks:
            each.close()


_VALUE = st.none() | st.integers(0, 6)


@settings(max_examples=15, deadline=None)
@given(
    BACKEND,
    st.sampled_from(range(len(_QUERIES))),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 1), _VALUE, _VALUE), max_size=40),
    st.sets(st.integers(1, 40)),
    st.dictionaries(st.integers(1, 40), st.integers(1, 3), max_size=2),
    st.integers(1, 2),
)
def test_split_aggregates_have_the_results_of_group_by(
    backend: str,
    number: int,
    is_incremental: bool,
    rows: list[_Row],
    cuts: set[int],
    restarts: dict[int, int],
    parallelism: int,
) -> None:
    pipeline = Pipeline(operators(_QUERIES[number][2], is_incremental=is_incremental), backend, parallelism)
    try:
        start = 0
        for end in sorted({*cuts, *restarts, len(rows)}):
            batch = rows[start:end]
            if batch:
                pipeline.process([("+I", *row) for row in batch])
            start = end
            if end in restarts or end == len(rows):
                pipeline.flush(restart=restarts.get(end))
    finally:
        pipeline.close()
    assert materialised(pipeline.output) == expected(number, rows)
