"""The description of the failed call of a user function, with its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flinkpy.common.types import Row
from flinkpy.streaming.operators.failed_call import MAX_ARGUMENT_CHARS, failed_call
from flinkpy.streaming.operators.fused_code import RowStep, Step, compile_steps
from flinkpy.streaming.operators.process_operator import ProcessContext, process_rows


def failure_of(function: Callable[[Any], Any], *records: Any) -> BaseException:
    """Returns the failure as a chained map sees it."""
    with pytest.raises(Exception) as caught:
        compile_steps([Step(RowStep.MAP, function)], ["test"]).values_only(list(records))
    return caught.value


def parse(line: Any) -> Any:
    return check(line)


def check(text: Any) -> Any:
    if text != "good":
        raise ValueError("bad")
    return text


def test_the_called_function_is_shown_with_the_failing_record() -> None:
    assert failed_call(failure_of(parse, "good", "a,b", "good")) == "parse(line='a,b')"
    assert failed_call(failure_of(lambda row: row["n"], {"m": 1})) == "<lambda>(row={'m': 1})"
    assert failed_call(failure_of(lambda row: row.no_such, Row(n=1))).startswith("<lambda>(row=Row(n=1)")


def test_a_reassigned_argument_is_not_shown() -> None:
    def strip(line: str) -> int:
        line = line.strip()
        return int(line)

    assert failed_call(failure_of(strip, " x ")) == "strip(line=...)"


def test_a_large_record_is_truncated() -> None:
    assert len(failed_call(failure_of(parse, "x" * 1_000_000))) < MAX_ARGUMENT_CHARS + 50


def test_arguments_from_flinkpy_are_left_out_and_generators_are_shown() -> None:
    class Function:
        def process_element(self, value: int, ctx: ProcessContext) -> Iterator[int]:
            yield 1 // value

    with pytest.raises(ZeroDivisionError) as caught:
        process_rows(Function().process_element, [1, 0], None, ProcessContext(None))  # type: ignore[arg-type]
    assert failed_call(caught.value) == "Function.process_element(value=0)"


def test_an_error_without_a_user_call_shows_no_call() -> None:
    assert failed_call(failure_of(int, "x")) == "", "no Python function was called"
    assert failed_call(ValueError("never raised")) == ""
