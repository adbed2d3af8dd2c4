"""Windows of the Table API: group windows, which groups of rows share, and OVER windows. Source: pyflink.table.window.

Example:
    >>> w = Tumble.over(lit(10).minutes).on(col("rowtime")).alias("w")
    >>> table.window(w).group_by(col("w"), col("name")).select(col("name"), col("w").end, col("price").max)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.expression import Expression, node_of
from flinkpy.table.expression_nodes import ExpressionNode, TableSymbol, ValueLiteral
from flinkpy.table.planner.binder.program_expressions import syntax_of
from flinkpy.table.planner.operation_tree_builder import GroupWindowCall, OverWindowCall

__all__ = ["GroupWindow", "Over", "OverWindow", "Session", "Slide", "Tumble"]


class GroupWindow:
    """A group window with its alias, made by Tumble, Slide or Session."""

    def __init__(self, call: GroupWindowCall) -> None:
        self.call = call


class OverWindow:
    """An OVER window with its alias, made by Over."""

    def __init__(self, call: OverWindowCall) -> None:
        self.call = call


@dataclass(frozen=True)
class _GroupWindow:
    """A group window as far as it is known."""

    function: str
    sizes: tuple[ExpressionNode, ...]
    time: ExpressionNode | None = None


class _OnTime:
    """A window that needs an alias to be used."""

    def __init__(self, window: _GroupWindow) -> None:
        self._window = window

    def alias(self, alias: str) -> GroupWindow:
        """Returns the window with the name by which `group_by` and `select` refer to it."""
        assert self._window.time is not None
        return GroupWindow(GroupWindowCall(alias, self._window.function, self._window.time, self._window.sizes))


class TumbleWithSizeOnTime(_OnTime):
    """Windows of one size that do not overlap."""


class SlideWithSizeAndSlideOnTime(_OnTime):
    """Windows of one size that begin at regular distances."""


class SessionWithGapOnTime(_OnTime):
    """Windows that end when nothing comes for some time."""


class TumbleWithSize:
    """A tumbling window without its time attribute."""

    def __init__(self, window: _GroupWindow) -> None:
        self._window = window

    def on(self, time_field: Expression[Any]) -> TumbleWithSizeOnTime:
        """Says which time attribute puts rows into windows; in batch mode it may be any timestamp."""
        return TumbleWithSizeOnTime(_on(self._window, time_field))


class Tumble:
    """Makes windows of one size that do not overlap."""

    @classmethod
    def over(cls, size: Expression[Any]) -> TumbleWithSize:
        """Says how long windows are, such as `lit(10).minutes`."""
        return TumbleWithSize(_GroupWindow("TUMBLE", (_size(size),)))


class SessionWithGap:
    """A session window without its time attribute."""

    def __init__(self, window: _GroupWindow) -> None:
        self._window = window

    def on(self, time_field: Expression[Any]) -> SessionWithGapOnTime:
        """Says which time attribute puts rows into windows; in batch mode it may be any timestamp."""
        return SessionWithGapOnTime(_on(self._window, time_field))


class Session:
    """Makes windows that end when nothing comes for some time."""

    @classmethod
    def with_gap(cls, gap: Expression[Any]) -> SessionWithGap:
        """Says after how long without a row a window ends."""
        return SessionWithGap(_GroupWindow("SESSION", (_size(gap),)))


class SlideWithSizeAndSlide:
    """A sliding window without its time attribute."""

    def __init__(self, window: _GroupWindow) -> None:
        self._window = window

    def on(self, time_field: Expression[Any]) -> SlideWithSizeAndSlideOnTime:
        """Says which time attribute puts rows into windows; in batch mode it may be any timestamp."""
        return SlideWithSizeAndSlideOnTime(_on(self._window, time_field))


class SlideWithSize:
    """A sliding window without its slide."""

    def __init__(self, size: ExpressionNode) -> None:
        self._size = size

    def every(self, slide: Expression[Any]) -> SlideWithSizeAndSlide:
        """Says at which distance windows begin."""
        return SlideWithSizeAndSlide(_GroupWindow("HOP", (_size(slide), self._size)))


class Slide:
    """Makes windows of one size that begin at regular distances, so that they may overlap."""

    @classmethod
    def over(cls, size: Expression[Any]) -> SlideWithSize:
        """Says how long windows are."""
        return SlideWithSize(_size(size))


def _on(window: _GroupWindow, time_field: Expression[Any]) -> _GroupWindow:
    return _GroupWindow(window.function, window.sizes, node_of(time_field))


def _size(size: Expression[Any]) -> ExpressionNode:
    node = node_of(size)
    if isinstance(node, ValueLiteral) and isinstance(node.type, lt.BigIntType):
        raise UnsupportedOperationError(
            "Windows of a number of rows are not supported for group windows; use a window of time, or OVER"
        )
    if not isinstance(node, ValueLiteral) or not isinstance(node.type, lt.DayTimeIntervalType):
        raise ValidationError(
            f"A window expects a size value literal of an interval of time, such as lit(10).minutes, not {node}."
        )
    return node


# -- OVER ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _OverWindow:
    """An OVER window as far as it is known."""

    partition: tuple[ExpressionNode, ...]
    order: ExpressionNode
    preceding: ExpressionNode | None = None
    following: ExpressionNode | None = None

    def named(self, alias: str) -> OverWindow:
        return OverWindow(OverWindowCall(alias, self.partition, self.order, self._frame()))

    def _frame(self) -> ast.WindowFrame | None:
        """Returns the frame. Without `preceding` it is that of SQL: all rows before and those that are equal."""
        if self.preceding is None:
            return None
        is_rows = _counts_rows(self.preceding)
        if self.following is not None and _counts_rows(self.following) != is_rows:
            raise ValidationError("Preceding and following must be of same interval type.")
        end = ast.FrameBound("CURRENT ROW") if self.following is None else _bound(self.following, "FOLLOWING")
        return ast.WindowFrame("ROWS" if is_rows else "RANGE", _bound(self.preceding, "PRECEDING"), end)


class OverWindowPartitionedOrderedPreceding:
    """An OVER window with its first row."""

    def __init__(self, window: _OverWindow) -> None:
        self._window = window

    def alias(self, alias: str) -> OverWindow:
        """Returns the window with the name by which `over` refers to it."""
        return self._window.named(alias)

    def following(self, following: Expression[Any]) -> OverWindowPartitionedOrderedPreceding:
        """Says where the window ends: CURRENT_ROW, CURRENT_RANGE, or an interval after the row."""
        window = self._window
        return OverWindowPartitionedOrderedPreceding(
            _OverWindow(window.partition, window.order, window.preceding, node_of(following))
        )


class OverWindowPartitionedOrdered:
    """An OVER window with its order."""

    def __init__(self, window: _OverWindow) -> None:
        self._window = window

    def alias(self, alias: str) -> OverWindow:
        """Returns the window, of all rows up to the current one, with the name by which `over` refers to it."""
        return self._window.named(alias)

    def preceding(self, preceding: Expression[Any]) -> OverWindowPartitionedOrderedPreceding:
        """Says where the window begins: UNBOUNDED_ROW, UNBOUNDED_RANGE, or an interval before the row."""
        window = self._window
        return OverWindowPartitionedOrderedPreceding(_OverWindow(window.partition, window.order, node_of(preceding)))


class OverWindowPartitioned:
    """An OVER window with its partition."""

    def __init__(self, partition: tuple[ExpressionNode, ...]) -> None:
        self._partition = partition

    def order_by(self, order_by: Expression[Any]) -> OverWindowPartitionedOrdered:
        """Says by which column rows are in order; in streaming mode it is a time attribute."""
        return OverWindowPartitionedOrdered(_OverWindow(self._partition, node_of(order_by)))


class Over:
    """Makes windows of the rows around each row."""

    @classmethod
    def order_by(cls, order_by: Expression[Any]) -> OverWindowPartitionedOrdered:
        """Says by which column rows are in order; in streaming mode it is a time attribute."""
        return OverWindowPartitionedOrdered(_OverWindow((), node_of(order_by)))

    @classmethod
    def partition_by(cls, *partition_by: Expression[Any]) -> OverWindowPartitioned:
        """Says which rows belong together: those with equal values of these expressions."""
        return OverWindowPartitioned(tuple(map(node_of, partition_by)))


def _counts_rows(node: ExpressionNode) -> bool:
    if isinstance(node, TableSymbol):
        return node.name.endswith("_ROW")
    return isinstance(node, ValueLiteral) and isinstance(node.type, lt.BigIntType)


def _bound(node: ExpressionNode, direction: str) -> ast.FrameBound:
    if isinstance(node, TableSymbol):
        kind = f"UNBOUNDED {direction}" if node.name.startswith("UNBOUNDED") else "CURRENT ROW"
        return ast.FrameBound(kind)
    if not isinstance(node, ValueLiteral) or node.type is None:
        raise ValidationError(
            f"The bound of an OVER window must be an interval of time or row_interval(n), not {node}."
        )
    return ast.FrameBound(direction, syntax_of(node))
