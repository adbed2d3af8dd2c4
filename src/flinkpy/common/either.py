"""Either: a value of one of two types. Beyond PyFlink.

Source: org.apache.flink.types.Either.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

__all__ = ["Either"]

L = TypeVar("L")
R = TypeVar("R")


class Either(Generic[L, R]):
    """A left value or a right value, made by `Either.Left(value)` or `Either.Right(value)`.

    Two instances are equal if they are on the same side and their values are equal.
    """

    __slots__ = ("_is_left", "_value")

    def __init__(self, is_left: bool, value: L | R) -> None:
        self._is_left = is_left
        self._value = value

    @staticmethod
    def Left(value: L) -> Either[L, Any]:
        return Either(True, value)

    @staticmethod
    def Right(value: R) -> Either[Any, R]:
        return Either(False, value)

    def is_left(self) -> bool:
        return self._is_left

    def is_right(self) -> bool:
        return not self._is_left

    def left(self) -> L:
        """Returns the left value. Raises: ValueError if this is a right value."""
        if not self._is_left:
            raise ValueError(f"{self!r} has no left value")
        return cast("L", self._value)

    def right(self) -> R:
        """Returns the right value. Raises: ValueError if this is a left value."""
        if self._is_left:
            raise ValueError(f"{self!r} has no right value")
        return cast("R", self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Either):
            return NotImplemented
        return self._is_left == other._is_left and bool(self._value == other._value)

    def __hash__(self) -> int:
        return hash((self._is_left, self._value))

    def __repr__(self) -> str:
        return f"{'Left' if self._is_left else 'Right'}({self._value!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Either, (self._is_left, self._value)
