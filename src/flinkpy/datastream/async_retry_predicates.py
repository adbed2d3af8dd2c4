"""Predicates for retry strategies. Source: pyflink.datastream.async_retry_predicates."""

from __future__ import annotations

from typing import Any


def empty_result_predicate(result: list[Any]) -> bool:
    """Returns True if there is no result."""
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception) -> bool:
    """Returns True for every exception."""
    return error is not None


def exception_type_predicate(error: Exception, expected_error_type: type) -> bool:
    """Returns True for exceptions of a type."""
    return isinstance(error, expected_error_type)
