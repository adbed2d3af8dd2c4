from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from streaming_fakes import CollectingOutput
from table_subtasks import TableSubtasks, row_info

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import ChangelogNormalizeSpec, DeduplicateSpec, DropUpdateBeforeSpec
from flinkpy.records.batch import Batch
from flinkpy.sql.rex import InputRef, Literal, RexCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.streaming.operators.table.drop_update_before_operator import DropUpdateBeforeOperator

ROW = row_info(k=lt.BigIntType(), v=lt.IntType())
KEY = FieldKeySelector(("k",))


def test_a_row_that_no_longer_meets_the_condition_is_deleted():
    condition = RexCall(lt.BooleanType(), ">", (InputRef(lt.IntType(), 1), Literal(lt.IntType(), 5)))
    normalize = TableSubtasks(ChangelogNormalizeSpec(KEY, (0,), True, condition, input_types=(ROW,)))

    assert normalize.process([("+I", 1, 9), ("+U", 1, 9), ("+U", 1, 7), ("+U", 1, 2), ("+U", 1, 3), ("-D", 1, 3)]) == [
        ("+I", 1, 9),
        ("-U", 1, 9),
        ("+U", 1, 7),
        ("-D", 1, 7),
    ]
    normalize.close()


def test_a_time_to_live_lets_unchanged_rows_pass():
    spec = ChangelogNormalizeSpec(KEY, (0,), False, state_ttl_ms=100, input_types=(ROW,))
    normalize = TableSubtasks(spec)

    assert normalize.process([("+I", 1, 9), ("+U", 1, 9)]) == [("+I", 1, 9), ("+U", 1, 9)]
    normalize.clock.advance(100)
    assert normalize.process([("+U", 1, 9)]) == [("+I", 1, 9)]
    normalize.close()


def test_the_first_row_of_a_key_is_kept_until_its_time_to_live_is_over():
    first = TableSubtasks(DeduplicateSpec(KEY, (0,), False, state_ttl_ms=100, input_types=(ROW,)))

    assert first.process([("+I", 1, 9), ("+I", 1, 8), ("+I", 2, 7)]) == [("+I", 1, 9), ("+I", 2, 7)]
    first.clock.advance(100)
    assert first.process([("+I", 1, 6)]) == [("+I", 1, 6)]
    first.close()


def test_a_deduplication_of_inserts_refuses_deletes():
    with pytest.raises(UnsupportedOperationError, match="takes no DELETE"):
        TableSubtasks(DeduplicateSpec(KEY, (0,), True, input_types=(ROW,))).process([("-D", 1, 1)])


def test_update_before_rows_are_dropped():
    output = CollectingOutput()
    operator = DropUpdateBeforeOperator(DropUpdateBeforeSpec(), ROW, None, output, {})  # type: ignore[arg-type]
    values = pa.RecordBatch.from_pydict({"k": [1, 2, 3], "v": [1, 2, 3]})
    operator.process_batch(Batch(values, None, np.array([1, 2, 3], dtype=np.int8)))
    operator.process_batch(Batch(values))
    operator.process_batch(Batch(values.slice(0, 1), None, np.array([1], dtype=np.int8)))

    assert output.rows == [(2, 2), (3, 3), (1, 1), (2, 2), (3, 3)]
    assert output.items[0].kinds.tolist() == [2, 3]
