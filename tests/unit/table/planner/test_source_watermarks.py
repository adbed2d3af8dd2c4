"""Sources whose splits progress independently make the watermarks of their tables."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from changelogs import to_batch, type_info
from streaming_fakes import OperatorHarness

from flinkpy.common.errors import FunctionError, TableProgramError, ValidationError
from flinkpy.common.typeinfo import Types
from flinkpy.common.watermark_strategy import Watermark, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.graph.table_specs import DropUpdateBeforeSpec, SourceWatermarks, WatermarkParams
from flinkpy.sql.rex import InputRef
from flinkpy.sql.types import logical_types as lt
from flinkpy.streaming.operators.watermark_generators import create_generator
from flinkpy.table import Schema, StreamTableEnvironment
from tests.unit.table.planner import planning
from tests.unit.table.planner.planning import FakeScan, PlannerFixture

_TIME = lt.TimestampType(3)
_ROWS = type_info(number=lt.IntType(), time=_TIME)


class SplitScan(FakeScan):
    """A source whose splits have watermarks of their own."""

    @property
    def supports_watermarks(self) -> bool:
        return True


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> PlannerFixture:
    monkeypatch.setattr(planning, "FakeScan", SplitScan)
    return PlannerFixture()


def test_source_makes_watermarks_of_its_own_columns(planner: PlannerFixture) -> None:
    planner.table("t", "a INT", "ts TIMESTAMP(3)", watermark="ts AS ts - INTERVAL '5' SECOND")

    plan = planner.plan("SELECT a, ts FROM t WHERE a > 1")

    assert "WatermarkAssigner" not in plan
    assert "t, watermark=[-(ts, 5000:INTERVAL SECOND)], watermarkEmitStrategy=[on-periodic]]], fields=[a, ts]" in plan


def test_windows_see_the_event_time_of_the_source(planner: PlannerFixture) -> None:
    planner.table("t", "a INT", "b AS a + 1", "ts TIMESTAMP(3)", watermark="ts AS ts")

    plan = planner.plan(
        "SELECT b, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY b, "
        "window_start, window_end"
    )

    assert "WindowAggregate(groupBy=[b], window=[TUMBLE(time_col=[ts]" in plan
    assert "WatermarkAssigner" not in plan


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (("a INT", "text STRING", "ts AS TO_TIMESTAMP(text)"), {}),
        (("a INT", "ts TIMESTAMP(3)"), {"scan.watermark.emit.strategy": "on-event"}),
    ],
    ids=["computed event time", "on-event"],
)
def test_other_watermarks_stay_behind_the_source(
    planner: PlannerFixture, columns: tuple[str, ...], options: dict[str, str]
) -> None:
    planner.table("t", *columns, watermark="ts AS ts", **options)

    assert "WatermarkAssigner(rowtime=[ts], watermark=[ts]" in planner.plan("SELECT a, ts FROM t")


def test_alignment_needs_a_source_that_makes_watermarks() -> None:
    planner = PlannerFixture()
    aligned = {"scan.watermark.alignment.group": "g", "scan.watermark.alignment.max-drift": "1 s"}
    planner.table("t", "a INT", "ts TIMESTAMP(3)", watermark="ts AS ts", **aligned)
    planner.table("u", "a INT", "ts TIMESTAMP(3)", watermark="ts AS ts", **{"scan.watermark.alignment.group": "g"})

    with pytest.raises(TableProgramError, match="its source makes no watermarks"):
        planner.plan("SELECT a FROM t")
    with pytest.raises(ValidationError, match="must be set together"):
        planner.plan("SELECT a FROM u")


class Emitted:
    def __init__(self) -> None:
        self.watermarks: list[int] = []

    def emit_watermark(self, watermark: Watermark) -> None:
        self.watermarks.append(watermark.timestamp)


def generator() -> Any:
    made = SourceWatermarks(1, InputRef(_TIME, 1), WatermarkParams(alignment=("g", 5, 10), idle_timeout_ms=0))
    context = OperatorHarness(DropUpdateBeforeSpec(input_types=(_ROWS,), output_type=_ROWS)).operator.context
    strategy = WatermarkStrategy.for_columns(made)
    assert strategy.alignment == ("g", 5, 10)
    assert strategy.makes_watermarks
    return create_generator(strategy, context, lambda: 0)


def at(ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=ms)


def test_watermark_of_a_split_is_the_greatest_value_of_the_expression() -> None:
    split, output = generator(), Emitted()
    split.on_periodic_emit(output)
    split.on_batch(to_batch([("+I", 1, at(7)), ("+I", 2, at(3))], _ROWS))
    split.on_periodic_emit(output)
    split.on_batch(to_batch([("+I", 3, at(5))], _ROWS))
    split.on_periodic_emit(output)

    assert output.watermarks == [7, 7]


def test_row_without_event_time_fails_the_source() -> None:
    with pytest.raises(FunctionError, match="rowtime column 'time' is NULL"):
        generator().on_batch(to_batch([("+I", 1, None)], _ROWS))


def test_table_of_a_stream_takes_over_its_watermarks() -> None:
    environment = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(environment)
    stream = environment.from_collection([(1,)], Types.ROW([Types.INT()]))
    schema = Schema.new_builder().column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
    table = tables.from_data_stream(stream, schema.watermark("rowtime", "SOURCE_WATERMARK()").build())
    tables.create_temporary_view("t", table)

    plan = tables.explain_sql(
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end"
    )

    assert "watermark=[SOURCE_WATERMARK()]" in plan
    assert "WatermarkAssigner" not in plan.partition("== Optimized Physical Plan ==")[2]
    assert "TUMBLE(time_col=[rowtime]" in plan


def test_source_without_watermarks_cannot_give_them() -> None:
    planner = PlannerFixture()
    planner.table("t", "a INT", "ts TIMESTAMP(3)", watermark="ts AS SOURCE_WATERMARK()")

    with pytest.raises(TableProgramError, match="the source of the table has no watermarks of its own"):
        planner.plan("SELECT a FROM t")
