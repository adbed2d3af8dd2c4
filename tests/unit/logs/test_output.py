"""The output of tasks becomes records."""

from __future__ import annotations

import io
import sys

import pytest

from flinkpy.logs.context import LogContext, in_context
from flinkpy.logs.output import TaskOutput

TASK, OTHER = LogContext("a" * 32), LogContext("b" * 32)


class Printed:
    def __init__(self, max_chars: int = 100, *, passes_on: bool = False) -> None:
        self.records: list[tuple[LogContext, str]] = []
        self.original = io.StringIO()
        self.stream = TaskOutput("stdout", self.original, self._take, max_chars, passes_on=passes_on)

    def _take(self, context: LogContext, name: str, lines: list[str]) -> None:
        assert name == "stdout"
        self.records += [(context, line) for line in lines]


def test_each_line_of_a_task_is_a_record() -> None:
    printed = Printed()
    with in_context(TASK):
        print("one", "two", file=printed.stream)
        print("three\nfour\n\nfi", end="", file=printed.stream)
        assert [line for _, line in printed.records] == ["one two", "three", "four", ""]
        print("ve", file=printed.stream)
        printed.stream.writelines(["six\n", "seven\n"])
    assert [line for _, line in printed.records][4:] == ["five", "six", "seven"]
    assert {context for context, _ in printed.records} == {TASK} and printed.original.getvalue() == ""


def test_output_that_belongs_to_no_task_stays_as_it_is() -> None:
    printed = Printed()
    with in_context(None):
        print("ready", file=printed.stream)
    assert printed.records == [] and printed.original.getvalue() == "ready\n"


def test_an_unfinished_line_is_a_record_when_it_is_flushed_or_another_task_prints() -> None:
    printed = Printed()
    with in_context(TASK):
        printed.stream.write("progress")
        printed.stream.flush()
        printed.stream.write("of the first")
    with in_context(OTHER):
        printed.stream.write("of the second\n")
        printed.stream.write("end")
    printed.stream.flush_all()
    assert printed.records == [
        (TASK, "progress"), (TASK, "of the first"), (OTHER, "of the second"), (OTHER, "end"),
    ]  # fmt: skip


def test_long_lines_are_cut() -> None:
    printed = Printed(max_chars=10)
    with in_context(TASK):
        printed.stream.write("x" * 25)
    assert [len(line) for _, line in printed.records] == [10, 10]


def test_last_words_go_to_both_streams() -> None:
    printed = Printed(passes_on=True)
    with in_context(TASK):
        printed.stream.write("Traceback\n")
    assert printed.records == [(TASK, "Traceback")] and printed.original.getvalue() == "Traceback\n"


def test_it_is_a_text_stream() -> None:
    printed = Printed()
    with in_context(TASK):
        with pytest.raises(TypeError, match="must be str, not bytes"):
            printed.stream.write(b"x")  # type: ignore[arg-type]
        assert printed.stream.write("abc\n") == 4
    assert printed.stream.writable() and not printed.stream.isatty()
    assert TaskOutput("stdout", sys.__stdout__, printed._take).fileno() == sys.__stdout__.fileno()  # type: ignore[arg-type,union-attr]
