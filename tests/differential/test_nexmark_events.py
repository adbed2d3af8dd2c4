"""The generator of Nexmark's events makes the same events as the one in Java that Flink SQL reads in the benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from requirements import has_java, require

from flinkpy.connectors.nexmark import NexmarkOptions, NexmarkSource, NexmarkSplit
from flinkpy.connectors.nexmark.generator import FIRST_NUMBER, EventGenerator, Timeline
from flinkpy.connectors.nexmark.schema import ALL_COLUMNS, FIELDS, logical_type

EVENTS = 1_000_000
RATE = 100_000
GENERATORS = 2
ROWS = 65_536

pytestmark = pytest.mark.timeout(1800)


def every_field() -> list[tuple[str, ...]]:
    return [ALL_COLUMNS[0], *((column, name) for column, fields in FIELDS.items() for name in fields)]


def program(folder: Path) -> Path:
    """Writes the statements that write all fields of all events as text."""
    from benchmarks.nexmark.statements import QUERIES, Input, with_input

    paths = every_field()
    declared = ",\n".join(f"`{'_'.join(path)}` {logical_type(path)}" for path in paths)
    fields = ", ".join(".".join(f"`{name}`" for name in path) for path in paths)
    events = with_input((QUERIES / "events.sql").read_text(), Input(EVENTS, RATE))
    file = folder / "events.sql"
    file.write_text(
        f"{events}\nCREATE TABLE written (\n{declared}\n) WITH ('connector'='nexmark-changes', 'path'='{folder}');\n"
        f"INSERT INTO written SELECT {fields} FROM datagen;\n"
    )
    return file


def lines_of(split: NexmarkSplit, options: NexmarkOptions) -> Iterator[str]:
    """Returns the events of one generator as the Java side writes them."""
    timeline = Timeline(split.first_event_id, split.generators, split.base_time_ms)
    generator = EventGenerator(options, timeline, tuple(every_field()))
    for first in range(0, split.max_events, ROWS):
        columns, _ = generator.batch(FIRST_NUMBER + first, min(ROWS, split.max_events - first))
        yield from pc.binary_join_element_wise("+I", *map(text_of, columns.columns), "\t").to_pylist()


def text_of(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        text = pc.strftime(column, "%Y-%m-%d %H:%M:%S")
    elif pa.types.is_string(column.type):
        text = pc.replace_substring(column, "\\", "\\\\")
    else:
        text = column.cast(pa.string())
    return pc.fill_null(text, "\\N")


def test_both_generators_make_the_same_million_events(tmp_path: Path) -> None:
    require("Java", has_java(), "Flink SQL runs on Java 17")
    from benchmarks.nexmark.flink import FlinkUnavailableError, class_path, run_flink
    from benchmarks.nexmark.statements import BASE_TIME_MS

    try:
        class_path()
    except FlinkUnavailableError as error:
        require("maven central", False, str(error))
    told = run_flink([program(tmp_path)], {}, GENERATORS, 1200)
    assert "error" not in told["events"], told["events"]

    options = NexmarkOptions(RATE, num_events=EVENTS, base_time_ms=BASE_TIME_MS)
    generated = [list(lines_of(split, options)) for split in NexmarkSource(options).split_list(GENERATORS)]
    written = [path.read_text().splitlines() for path in sorted(tmp_path.glob("part-*"))]
    # Flink gives the generators to its subtasks in the order of their requests.
    if written[0][0] != generated[0][0]:
        written.reverse()
    for ours, theirs in zip(generated, written, strict=True):
        assert len(ours) == len(theirs) == EVENTS // GENERATORS
        assert next(((a, b) for a, b in zip(ours, theirs, strict=True) if a != b), None) is None
