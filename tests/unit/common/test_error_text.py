"""Text of exceptions is valid and bounded, and making it never fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.error_text import (
    MAX_ERROR_TEXT_CHARS,
    MAX_TRACEBACK_CHARS,
    bounded_text,
    describe,
    format_traceback,
    format_user_traceback,
    safe_repr,
    valid_text,
)


def _five() -> Any:
    return 5


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class ExitingError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NumberError(Exception):
    def __str__(self) -> str:
        return _five()


def chain_of(length: int) -> BaseException:
    error: BaseException = ValueError("link 0")
    for number in range(1, length):
        cause, error = error, ValueError(f"link {number}")
        error.__cause__ = cause
    return error


def cyclic() -> BaseException:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__context__ = second, first
    return first


def nested_groups(depth: int) -> BaseException:
    error: Exception = ValueError("\ud800")
    for _ in range(depth):
        error = ExceptionGroup("group \udfff", [error, KeyError(1)])
    return error


ERRORS = [
    SilentError(),
    ExitingError(),
    NumberError(),
    ValueError("\ud800" * 100_000),
    ValueError("x" * 10_000_000),
    ValueError(list(range(100_000))),
    chain_of(20_000),
    cyclic(),
    nested_groups(200),
    ExceptionGroup("wide", [ValueError(number) for number in range(5_000)]),
    SystemExit("\udc80"),
    KeyboardInterrupt(),
    SyntaxError("bad", ("file\ud800", 1, 1, "text\ud800", 1, 2)),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_exception_has_valid_bounded_text(error: BaseException) -> None:
    texts = [describe(error), format_traceback(error), format_user_traceback(error), safe_repr(error)]

    for text in texts:
        text.encode()
        assert len(text) <= MAX_TRACEBACK_CHARS
    assert type(error).__name__ in texts[0]
    assert type(error).__name__ in texts[1]


@given(st.text(st.characters(), max_size=200), st.integers(0, 300))
def test_bounded_text_is_valid_and_within_its_limit(text: str, limit: int) -> None:
    bounded = bounded_text(text, limit)

    bounded.encode()
    assert len(bounded) <= limit
    if len(valid_text(text)) <= limit:
        assert bounded == valid_text(text)


def test_cut_text_keeps_both_ends_and_the_number_of_omitted_characters() -> None:
    text = bounded_text("begin" + "x" * 10_000 + "end", 1_000)

    assert text.startswith("begin") and text.endswith("end")
    assert "9008 characters left out" in text


def test_long_chain_shows_its_first_and_last_exceptions() -> None:
    text = format_traceback(chain_of(20_000))

    assert "ValueError: link 0\n" in text and "ValueError: link 19999\n" in text
    assert "19984 exceptions of the chain left out" in text


def test_text_names_the_method_that_failed_to_return_it() -> None:
    assert describe(SilentError()).endswith("SilentError.__str__ raised RuntimeError>")
    assert len(describe(ValueError("x" * 1_000_000))) <= MAX_ERROR_TEXT_CHARS + 100


def test_interrupt_of_a_task_is_not_swallowed() -> None:
    class Interrupt(BaseException):
        pass

    class Interrupted(Exception):
        def __str__(self) -> str:
            raise Interrupt

    with pytest.raises(Interrupt):
        describe(Interrupted())
