"""Aggregates over windows of tables: bounds, attached windows, processing time, zones, retraction, late rows."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from changelogs import TableSubtasks, type_info

from flinkpy.common.errors import FunctionError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import GroupWindowAggregateSpec, WindowAggregateSpec, WindowSlices
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types import logical_types as lt

_TIME = lt.TimestampType(precision=3)
_COUNT = AggregateCall("COUNT", (), lt.BigIntType(), "rows")
_MAX = AggregateCall("MAX", (1,), lt.BigIntType(), "max")


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def spec(
    window: WindowSlices, calls: Any = (_COUNT,), kind: Any = WindowAggregateSpec, time: Any = _TIME, **more: Any
) -> Any:
    properties = more.pop("properties", ("window_start", "window_end"))
    info = type_info(key=lt.VarCharType(), number=lt.BigIntType(), time=time, end=_TIME)
    return kind(
        FieldKeySelector(("key",)),
        input_types=(info,),
        output_type=type_info(
            key=lt.VarCharType(), **{call.name: call.type for call in calls}, **dict.fromkeys(properties, _TIME)
        ),
        grouping=(0,),
        aggregates=tuple(calls),
        window=window,
        properties=properties,
        **more,
    )


def ms(text: str) -> int:
    return int(at(text).replace(tzinfo=dt.UTC).timestamp() * 1000)


def test_windows_are_aligned_to_the_epoch_and_the_offset_also_before_it() -> None:
    window = WindowSlices("TUMBLE", 10_000, offset_ms=2_000, time_column=2)
    with TableSubtasks(spec(window)) as subtasks:
        subtasks.process([("+I", "a", 1, at("1969-12-31T23:59:51.999"), None)])
        subtasks.process([("+I", "a", 1, at("1969-12-31T23:59:52"), None)])
        subtasks.watermark(ms("1970-01-01T00:00:01.999"))
        assert subtasks.output == [
            ("+I", "a", 1, at("1969-12-31T23:59:42"), at("1969-12-31T23:59:52")),
            ("+I", "a", 1, at("1969-12-31T23:59:52"), at("1970-01-01T00:00:02")),
        ]


def test_late_rows_are_dropped_and_counted() -> None:
    window = WindowSlices("TUMBLE", 10_000, time_column=2)
    with TableSubtasks(spec(window)) as subtasks:
        subtasks.watermark(ms("2020-01-01T00:00:09.999"))
        subtasks.process([("+I", "a", 1, at("2020-01-01T00:00:09"), None)])
        subtasks.process([("+I", "a", 1, at("2020-01-01T00:00:10"), None)])
        subtasks.watermark(ms("2020-01-01T00:01"))
        assert [change[2:] for change in subtasks.output] == [(1, at("2020-01-01T00:00:10"), at("2020-01-01T00:00:20"))]
        metrics = subtasks.subtasks[0].context.metrics
        assert metrics.counter("numLateRecordsDropped").get_count() == 1


@pytest.mark.parametrize(
    ("kind", "start"), [("TUMBLE", "00:00:02"), ("HOP", "00:00:02"), ("CUMULATE", "00:00:10")], ids=str
)
def test_windows_of_the_input_are_taken_from_their_end(kind: str, start: str) -> None:
    window = WindowSlices(kind, 10_000, 2_000, offset_ms=2_000 if kind == "TUMBLE" else 0, end_column=3)
    with TableSubtasks(spec(window, (_MAX,))) as subtasks:
        end = at("2020-01-01T00:00:12")
        subtasks.process([("+I", "a", 5, None, end), ("+I", "a", 7, None, end), ("+I", "b", 6, None, end)])
        subtasks.watermark(ms("2020-01-01T00:00:11.998"))
        assert subtasks.output == []
        subtasks.watermark(ms("2020-01-01T00:00:11.999"))
        assert sorted(subtasks.output) == [
            ("+I", "a", 7, at(f"2020-01-01T{start}"), end),
            ("+I", "b", 6, at(f"2020-01-01T{start}"), end),
        ]


def test_windows_of_processing_time_end_with_the_clock() -> None:
    window = WindowSlices("TUMBLE", 10_000, is_event_time=False, time_column=2)
    with TableSubtasks(spec(window, time=lt.LocalZonedTimestampType(precision=3))) as subtasks:
        subtasks.process([("+I", "a", 1, None, None), ("+I", "a", 1, None, None)])
        subtasks.advance(8_000)
        assert subtasks.output == []
        subtasks.advance(1_001)
        assert subtasks.output == [("+I", "a", 2, at("1970-01-01"), at("1970-01-01T00:00:10"))]


def test_windows_of_a_zoned_time_are_days_of_the_session() -> None:
    window = WindowSlices("TUMBLE", 86_400_000, time_column=2, is_zoned=True)
    zoned = spec(
        window, time=lt.LocalZonedTimestampType(precision=3), settings=SessionSettings(time_zone="Asia/Shanghai")
    )
    with TableSubtasks(zoned) as subtasks:
        rows = [at("2020-01-01T15:59:59+00:00"), at("2020-01-01T16:00:00+00:00")]
        subtasks.process([("+I", "a", 1, row, None) for row in rows])
        subtasks.watermark(ms("2020-01-01T15:59:59.998"))
        assert subtasks.output == []
        subtasks.watermark(ms("2020-01-01T15:59:59.999"))
        assert subtasks.output == [("+I", "a", 1, at("2020-01-01"), at("2020-01-02"))]


def test_rows_that_are_taken_back_do_not_count() -> None:
    window = WindowSlices("TUMBLE", 10_000, time_column=2)
    total = AggregateCall("SUM", (1,), lt.BigIntType(), "sum")
    time = at("2020-01-01")
    with TableSubtasks(spec(window, (total,), needs_retraction=True)) as subtasks:
        subtasks.process([("+I", "a", 5, time, None), ("-U", "a", 5, time, None), ("+U", "a", 8, time, None)])
        subtasks.process([("+I", "b", 5, time, None), ("-D", "b", 5, time, None)])
        subtasks.watermark(ms("2020-01-02"))
        assert subtasks.output == [("+I", "a", 8, time, at("2020-01-01T00:00:10"))]


def test_group_windows_have_their_own_properties() -> None:
    window = WindowSlices("SESSION", 10_000, time_column=2)
    session = spec(window, kind=GroupWindowAggregateSpec, properties=("start", "end", "rowtime"))
    with TableSubtasks(session) as subtasks:
        subtasks.process([("+I", "a", 1, at("2020-01-01"), None), ("+I", "a", 1, at("2020-01-01T00:00:10"), None)])
        subtasks.watermark(ms("2020-01-02"))
        end = at("2020-01-01T00:00:20")
        assert subtasks.output == [("+I", "a", 2, at("2020-01-01"), end, end - dt.timedelta(milliseconds=1))]


def test_a_row_without_a_time_fails_with_the_name_of_the_column() -> None:
    with (
        TableSubtasks(spec(WindowSlices("TUMBLE", 10_000, time_column=2))) as subtasks,
        pytest.raises(FunctionError, match="rowtime column 'time' is NULL"),
    ):
        subtasks.process([("+I", "a", 1, None, None)])
