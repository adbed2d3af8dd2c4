"""The column optimizer never changes the results of a program."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from column_programs import graph_of, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv, orc

from flinkpy.common import Configuration, WatermarkStrategy
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream import DataStream, StreamExecutionEnvironment
from flinkpy.datastream.aggregates import avg, count, max_, mean, min_, sum_
from flinkpy.datastream.expressions import Expression, col, if_then_else, lit

ROWS = 60
NUMBERS = ("a", "b", "m")
AGGREGATES = {"sum": sum_, "min": min_, "max": max_, "avg": avg, "mean": mean}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files with several row groups and nulls. Doubles are integral, so the order of addition does not matter."""
    directory = tmp_path_factory.mktemp("optimizer")
    for name, shift in (("left", 0), ("right", 3)):
        numbers = [(i * 7 + shift) % 11 for i in range(ROWS)]
        table = pa.table(
            {
                "a": pa.array([None if n == 4 else n for n in numbers], pa.int32()),
                "b": pa.array([i // 10 for i in range(ROWS)], pa.int64()),
                "s": [f"s{n % 3}" if n != 5 else None for n in numbers],
                "m": pa.array([Decimal(n * i).scaleb(-2) for i, n in enumerate(numbers)], pa.decimal128(6, 2)),
                "d": [float(n) for n in numbers],
                "unused": ["x" * n for n in numbers],
            }
        )
        pq.write_table(table, directory / f"{name}.parquet", row_group_size=10)
    return directory


@st.composite
def conditions(draw: st.DrawFn, names: list[str]) -> Expression:
    name = draw(st.sampled_from([name for name in names if name in (*NUMBERS, "d", "s")] or ["?"]))
    if name == "?":
        return lit(True)
    if name == "s":
        among = [col("s") == "s1", col("s").in_("s0", "s2"), col("s").is_null, col("s").starts_with("s2")]
        simple = draw(st.sampled_from([*among, col("s") != "s1"]))
    else:
        value = draw(st.integers(-1, 8))
        among = [
            col(name) > value,
            col(name) <= value,
            col(name) == value,
            ~(col(name) < value),
            lit(value) < col(name),
        ]
        simple = draw(st.sampled_from([*among, col(name) != value, col(name).is_not_null]))
    joined = draw(st.integers(0, 5))
    if joined > 1:
        return simple
    other = draw(conditions(names))
    return simple & other if joined else simple | other


@st.composite
def selections(draw: st.DrawFn, names: list[str]) -> list[Expression]:
    kept = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    made: list[Expression] = [col(name) for name in kept]
    numbers = [name for name in names if name in NUMBERS]
    free = [name for name in NUMBERS if name not in kept]
    if numbers and free and draw(st.booleans()):
        one, other = draw(st.sampled_from(numbers)), draw(st.sampled_from(numbers))
        value = draw(st.sampled_from([col(one) + 1, col(one) - col(other), if_then_else(col(one) > 2, col(other), 0)]))
        made.append(value.alias(free[0]))
    return made


def columns_of(stream: DataStream) -> list[str]:
    kind = stream.get_type()
    assert isinstance(kind, RowTypeInfo)
    return kind.get_field_names()


class Program:
    """Builds the same program repeatedly. It calls `draw` once and reuses the drawn values."""

    def __init__(self, files: Path, data: st.DataObject) -> None:
        self._files = files
        self._data = data
        self._drawn: list[Any] = []
        self._replay: Iterator[Any] | None = None

    def _draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        if self._replay is not None:
            return next(self._replay)
        self._drawn.append(self._data.draw(strategy))
        return self._drawn[-1]

    def build(self, env: StreamExecutionEnvironment) -> None:
        stream = self._steps(self._source(env, "left"), depth=0)
        self._ending(stream)
        self._replay = iter(self._drawn)

    def _source(self, env: StreamExecutionEnvironment, name: str) -> DataStream:
        source = FileSource.for_parquet(str(self._files / f"{name}.parquet"))
        return env.from_source(source, WatermarkStrategy.no_watermarks(), name)

    def _steps(self, stream: DataStream, depth: int) -> DataStream:
        for _ in range(self._draw(st.integers(0, 4))):
            names = columns_of(stream)
            step = self._draw(st.sampled_from(["filter", "filter", "select", "select", "join", "sort"]))
            if step == "filter":
                stream = stream.filter_batches(self._draw(conditions(names)))
            elif step == "select":
                stream = stream.select(*self._draw(selections(names)))
            elif step == "sort":
                stream = stream.sort_columns(self._draw(st.sampled_from(names)))
            elif step == "join" and depth == 0 and "b" in names:
                how = self._draw(st.sampled_from(["inner", "left", "semi", "anti"]))
                other = self._steps(self._source(stream.get_execution_environment(), "right"), depth + 1)
                if "b" not in columns_of(other) or other.get_type() is None:
                    other = self._source(stream.get_execution_environment(), "right")
                renamed = [col(name) if name == "b" else col(name).alias(f"{name}_r") for name in columns_of(other)]
                other = other.select(*renamed)
                kinds = [dict(zip(columns_of(one), one.get_type().get_field_types()))["b"] for one in (stream, other)]
                if kinds[0] == kinds[1] and not any(name.endswith("_r") for name in names):
                    stream = stream.key_by("b").join_columns(other.key_by("b"), how, self._draw(st.booleans()))
        return stream

    def _ending(self, stream: DataStream) -> None:
        names = columns_of(stream)
        numbers = [name for name in names if name in NUMBERS]
        ending = self._draw(st.sampled_from(["nothing", "keyed", "global"]))
        if ending == "nothing" or not numbers:
            return
        number = self._draw(st.sampled_from(numbers))
        chosen = self._draw(st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, unique=True))
        value = self._draw(st.sampled_from([number, col(number) + 1]))
        wanted = {function: AGGREGATES[function](value) for function in chosen}
        if ending == "global":
            stream.aggregate_columns(n=count(), **wanted)
        else:
            key = self._draw(st.sampled_from(names))
            stream.key_by(key).aggregate(n=count(), **wanted, emit="FINAL")


def rows(program: Program, mode: str, is_optimized: bool) -> list[str]:
    properties = {"execution.runtime-mode": mode, "execution.columns.optimizer.enabled": str(is_optimized).lower()}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(properties))
    env.set_parallelism(1)
    program.build(env)
    if not env.get_transformations():
        return []
    return sorted(map(str, run(env)))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(data=st.data(), mode=st.sampled_from(["BATCH", "STREAMING"]))
def test_a_program_gives_the_same_with_and_without_the_optimizer(files: Path, data: st.DataObject, mode: str) -> None:
    program = Program(files, data)

    assert rows(program, mode, False) == rows(program, mode, True)


def test_in_streaming_mode_the_graph_keeps_its_operators(files: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    source = FileSource.for_parquet(str(files / "left.parquet"))
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    lines.filter_batches(col("a") > 1).select("b", "m").key_by("b").aggregate(total=sum_("m"), emit="FINAL")

    graph = graph_of(env)

    assert [node.name for node in graph.nodes] == ["Source: lines", "Filter", "Select", "Keyed Aggregation"]
    assert graph.nodes[0].notes == ["columns: a, b, m", "where: (a > 1)"]


@pytest.mark.parametrize("mode", ["BATCH", "STREAMING"])
def test_every_format_gives_the_same_with_and_without_the_optimizer(tmp_path: Path, mode: str) -> None:
    table = pa.table({"unused": ["x"] * 9, "k": list("abcabcabc"), "n": range(9), "m": [i / 4 for i in range(9)]})
    orc.write_table(table, tmp_path / "a.orc")
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    csv.write_csv(table, tmp_path / "a.csv")
    sources = [
        FileSource.for_orc(str(tmp_path / "a.orc")),
        FileSource.for_parquet(str(tmp_path / "a.parquet")),
        FileSource.for_csv(str(tmp_path / "a.csv")),
    ]
    answers = []
    for source in sources:
        for is_optimized in ("true", "false"):
            properties = {"execution.runtime-mode": mode, "execution.columns.optimizer.enabled": is_optimized}
            env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(properties))
            lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
            kept = lines.filter_batches((col("n") > 2) & (col("k") != "b"))
            kept.key_by("k").aggregate(total=sum_("m"), n=count(), emit="FINAL").sort_columns("k")
            answers.append(run(env))

    assert answers == [[("a", 2.25, 2), ("c", 3.25, 2)]] * 6
