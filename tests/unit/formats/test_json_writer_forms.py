"""JSON has times in the form that Flink's consumer of it expects."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from flinkpy.common.typeinfo import Types
from flinkpy.formats.json_values import TimeForm
from flinkpy.formats.json_writer import JsonWriter

ROW = Types.ROW_NAMED(["t", "i", "c"], [Types.SQL_TIMESTAMP(), Types.INSTANT(), Types.SQL_TIME()])
MOMENT = datetime.datetime(2020, 2, 29, 1, 2, 3, 500_000)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (TimeForm.SQL, '{"t":"2020-02-29 01:02:03.5","i":"2020-02-29 01:02:03.5Z","c":"01:02:03"}'),
        (TimeForm.ISO_8601, '{"t":"2020-02-29T01:02:03.5","i":"2020-02-29T01:02:03.5Z","c":"01:02:03"}'),
        (TimeForm.RFC_3339, '{"t":"2020-02-29T01:02:03.5Z","i":"2020-02-29T01:02:03.5Z","c":"01:02:03Z"}'),
    ],
)
def test_each_form_of_times_is_that_of_flink(form: TimeForm, expected: str) -> None:
    columns = pa.RecordBatch.from_arrays(
        [
            pa.array([MOMENT], pa.timestamp("us")),
            pa.array([MOMENT], pa.timestamp("us", "UTC")),
            pa.array([datetime.time(1, 2, 3)], pa.time64("us")),
        ],
        names=["t", "i", "c"],
    )
    assert JsonWriter(ROW, form).texts(columns) == [expected]
