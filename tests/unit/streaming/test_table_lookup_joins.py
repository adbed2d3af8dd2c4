from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from table_subtasks import TableSubtasks, row_info

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import JoinType, LookupJoinSpec
from flinkpy.sql.types import logical_types as lt
from flinkpy.streaming.operators.table import lookup_join_operator

INPUT = row_info(k=lt.BigIntType(), a=lt.IntType())
TABLE = row_info(id=lt.BigIntType(), name=lt.VarCharType(lt.MAX_LENGTH))
OUTPUT = row_info(k=lt.BigIntType(), a=lt.IntType(), id=lt.BigIntType(), name=lt.VarCharType(lt.MAX_LENGTH))


class Names:
    """Finds n rows for the key n. Remembers what it was asked."""

    asked: list[list[Any]] = []

    def open(self, context: Any) -> None:
        assert context.get_number_of_parallel_subtasks() == 1

    def lookup(self, keys: pa.RecordBatch) -> tuple[np.ndarray, pa.RecordBatch]:
        values = keys.column(0).to_pylist()
        self.asked.append(values)
        found = [(place, key, f"{key}.{n}") for place, key in enumerate(values) for n in range(key)]
        rows = [pa.array([row[i] for row in found], kind) for i, kind in ((1, pa.int64()), (2, pa.string()))]
        places = np.array([row[0] for row in found], dtype=np.int64)
        return places, pa.RecordBatch.from_arrays(rows, names=["id", "name"])

    def close(self) -> None:
        self.asked.append(["closed"])


class FirstColumn:
    """Stands for the expression of the key: the first column."""

    def open(self, context: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def evaluate(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [batch.column(0)]


@pytest.fixture
def lookups(monkeypatch):
    monkeypatch.setattr(lookup_join_operator, "expressions", lambda nodes, settings: FirstColumn())
    monkeypatch.setattr(Names, "asked", [])
    return Names.asked


def lookup_spec(join_type: JoinType, **options: Any) -> Any:
    return LookupJoinSpec(Names(), join_type, ((0, None),), TABLE, input_types=(INPUT,), output_type=OUTPUT, **options)


def started(spec: Any) -> TableSubtasks:
    return TableSubtasks(spec, selectors=(FieldKeySelector(()),))


def test_each_distinct_key_of_a_batch_is_looked_up_once(lookups):
    join = started(lookup_spec(JoinType.LEFT))
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
    assert lookups == [[2, 0, 1], ["closed"]]


def test_an_inner_join_drops_rows_that_find_nothing(lookups):
    join = started(lookup_spec(JoinType.INNER))

    assert join.process([("+I", None, 1)]) == []
    assert join.process([("+I", 0, 2), ("+I", 1, 3)]) == [("+I", 1, 3, 1, "1.0")]
    assert lookups == [[0, 1]]


def test_other_joins_and_retries_are_refused(lookups):
    with pytest.raises(UnsupportedOperationError, match="INNER or LEFT"):
        started(lookup_spec(JoinType.FULL))
    with pytest.raises(UnsupportedOperationError, match="retry"):
        started(lookup_spec(JoinType.LEFT, retry=("lookup_miss", 1_000, 3)))
