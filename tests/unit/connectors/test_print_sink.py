from __future__ import annotations

import datetime
import select

import pyarrow as pa
import pytest
from connector_fakes import TestingWriterContext

from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row, RowKind
from flinkpy.connectors.discard_sink import DiscardingSink
from flinkpy.connectors.print_sink import PrintSink
from flinkpy.formats.text_form import text_of
from flinkpy.records.batch import Batch


def printed(capsys, sink, values, **context):
    writer = sink.create_writer(TestingWriterContext(**context))
    writer.write(Batch(values))
    writer.flush(True)
    writer.close()
    return capsys.readouterr()


@pytest.mark.parametrize(
    ("identifier", "parallelism", "expected"),
    [(None, 1, "a\n"), (None, 4, "3> a\n"), ("id", 1, "id> a\n"), ("id", 4, "id:3> a\n")],
)
def test_prefix_names_the_sink_and_one_of_several_subtasks(capsys, identifier, parallelism, expected):
    out = printed(capsys, PrintSink(identifier), ["a"], parallelism=parallelism, subtask_index=2).out
    assert out == expected


def test_sink_can_print_to_standard_error(capsys):
    captured = printed(capsys, PrintSink(std_err=True), ["a"])
    assert (captured.out, captured.err) == ("", "a\n")


def test_text_that_no_terminal_can_show_is_escaped(capsys):
    assert printed(capsys, PrintSink(), ["a\ud800", "é"]).out == "a\\ud800\né\n"


def test_typed_columns_and_rows_print_alike(capsys):
    type_info = Types.ROW_NAMED(["name", "ok"], [Types.STRING(), Types.BOOLEAN()])
    columns = pa.RecordBatch.from_pydict({"name": ["a", None], "ok": [True, False]})
    expected = "+I[a, true]\n+I[null, false]\n"
    assert printed(capsys, PrintSink(), columns, input_type=type_info).out == expected
    assert printed(capsys, PrintSink(), [Row("a", True), Row(None, False)], input_type=type_info).out == expected


def test_an_untyped_object_prints_as_python_does_and_a_row_as_flink_does(capsys):
    assert printed(capsys, PrintSink(), [(1, "a"), None, True, Row(1, "a")]).out == "(1, 'a')\nNone\nTrue\n+I[1, a]\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Row.of_kind(RowKind.DELETE, 1, None), "-D[1, null]"),
        ((1, "a", (True,)), "(1,a,(true))"),
        ([1, None], "[1, null]"),
        ({"a": 1, "b": False}, "{a=1, b=false}"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (1e7, "1.0E7"),
        (-12345678.5, "-1.23456785E7"),
        (0.0001, "1.0E-4"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
        (0.0, "0.0"),
        (datetime.datetime(2013, 1, 1, 10), "2013-01-01 10:00:00.0"),
        (datetime.datetime(2013, 1, 1, 10, 0, 0, 120_000), "2013-01-01 10:00:00.12"),
        (datetime.date(2013, 1, 1), "2013-01-01"),
    ],
)
def test_values_have_the_text_form_of_flink(value, text):
    assert text_of(value) == text


def test_a_large_batch_is_written_in_groups_of_whole_lines_that_a_pipe_takes_at_once(monkeypatch):
    class Stream:
        def __init__(self):
            self.writes = []

        def write(self, text):
            self.writes.append(text)

        def flush(self):
            self.writes.append(None)

    stream = Stream()
    monkeypatch.setattr("sys.stdout", stream)
    lines = [f"line {number} ü" for number in range(2_000)] + ["x" * 10_000]
    PrintSink().create_writer(TestingWriterContext()).write(Batch(lines))
    writes = [text for text in stream.writes if text]
    assert "".join(writes).splitlines() == lines
    assert all(text.endswith("\n") for text in writes)
    assert all(len(text.encode()) <= select.PIPE_BUF for text in writes[:-1])
    assert stream.writes[1::2] == [None] * len(writes)


def test_discarding_sink_accepts_all_records():
    writer = DiscardingSink().create_writer(TestingWriterContext())
    writer.write(Batch([1]))
    writer.flush(True)
    assert writer.is_writable
    assert writer.has_finished
    writer.close()
