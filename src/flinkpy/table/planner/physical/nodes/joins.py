"""Nodes that join."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flinkpy.graph.table_specs import AsyncLookupOptions, JoinType, MultiJoinStep
from flinkpy.sql.rex import RexNode
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.planner.binder.operators import conjuncts
from flinkpy.table.planner.changelog.modes import INSERT_ONLY
from flinkpy.table.planner.logical.nodes import Window, unique_names
from flinkpy.table.planner.physical.nodes.base import PhysicalNode, Term
from flinkpy.table.planner.physical.texts import window_text
from flinkpy.table.planner.rex_text import CHARSET, rex_text, type_text


@dataclass(eq=False)
class JoinNode(PhysicalNode):
    join_type: JoinType
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    filter_nulls: tuple[bool, ...]
    #: The whole condition, for plans; and the part that is no equality of keys.
    condition: RexNode
    rest: RexNode | None

    def _where(self, infix: bool) -> Term:
        names = joined_names(self.inputs[0].names, self.inputs[1].names)
        if not conjuncts(self.condition):
            return "where", "[true]"
        return "where", f"[{rex_text(self.condition, names, infix=infix)}]"


def joined_names(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the columns of both inputs of a join."""
    return unique_names((*left, *right))


@dataclass(eq=False)
class Join(JoinNode):
    left_unique: tuple[int, ...] | None = None
    right_unique: tuple[int, ...] | None = None
    left_key_is_unique: bool = False
    right_key_is_unique: bool = False
    left_ttl_ms: int | None = None
    right_ttl_ms: int | None = None
    is_mini_batch: bool = False

    def key_contains_unique_key(self, place: int) -> bool:
        return (self.left_key_is_unique, self.right_key_is_unique)[place]

    def terms(self, *, infix: bool = False) -> list[Term]:
        terms = [("joinType", f"[{self.join_type.value}]"), self._where(infix), self._select()]
        terms.append(("leftInputSpec", f"[{_input_text(self.left_unique, self.left_key_is_unique)}]"))
        terms.append(("rightInputSpec", f"[{_input_text(self.right_unique, self.right_key_is_unique)}]"))
        if self.is_mini_batch:
            terms.append(("miniBatch", "[true]"))
        return terms


@dataclass(eq=False)
class MultiJoin(PhysicalNode):
    """A chain of inner and left joins over one key, in one operator.

    Attributes:
        keys: for each input, the columns of the key.
        steps: how inputs 1, 2, ... are joined.
        conditions: their whole conditions, for plans.
        unique: for each input, columns that are unique; None if there are none.
        upsert: for each input, columns that identify the row that a change belongs to; None if there are none.
        ttls: for each input, the time-to-live of its state as a hint gives it.
    """

    keys: tuple[tuple[int, ...], ...]
    steps: tuple[MultiJoinStep, ...]
    conditions: tuple[RexNode, ...]
    unique: tuple[tuple[int, ...] | None, ...]
    upsert: tuple[tuple[int, ...] | None, ...]
    ttls: tuple[str | None, ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        unique = [
            "noUniqueKey" if key is None else f"({self._columns(key, place)})" for place, key in enumerate(self.unique)
        ]
        conditions = [
            rex_text(each, self.names, infix=infix) if conjuncts(each) else "true" for each in self.conditions
        ]
        fields = ", ".join(f"{type_text(each.type)} {each.name}".replace(CHARSET, "") for each in self.row_type.fields)
        terms = [
            ("commonJoinKey", f"[{self._columns(self.keys[0]) or 'noCommonJoinKey'}]"),
            ("joinTypes", f"[{', '.join(each.join_type.name for each in self.steps)}]"),
            ("inputUniqueKeys", f"[{', '.join(unique)}]"),
        ]
        if any(self.ttls):
            shown = ", ".join(each or "0s" for each in self.ttls)
            terms.append(("stateTtlHints", f"[[[STATE_TTL options:[{shown}]]]]"))
        return [
            *terms,
            ("joinConditions", f"[{', '.join(conditions)}]"),
            ("select", f"[{','.join(self.names)}]"),
            ("rowType", f"[RecordType({fields})]"),
        ]


def _input_text(unique: tuple[int, ...] | None, is_join_key: bool) -> str:
    if unique is None:
        return "NoUniqueKey"
    return "JoinKeyContainsUniqueKey" if is_join_key else "HasUniqueKey"


@dataclass(eq=False)
class IntervalJoin(JoinNode):
    is_event_time: bool
    lower_ms: int
    upper_ms: int
    left_time: int
    right_time: int

    def terms(self, *, infix: bool = False) -> list[Term]:
        bounds = (
            f"isRowTime={str(self.is_event_time).lower()}, leftLowerBound={self.lower_ms}, "
            f"leftUpperBound={self.upper_ms}, leftTimeIndex={self.left_time}, rightTimeIndex={self.right_time}"
        )
        return [
            ("joinType", f"[{self.join_type.value}]"),
            ("windowBounds", f"[{bounds}]"),
            self._where(infix),
            self._select(),
        ]


@dataclass(eq=False)
class TemporalJoin(JoinNode):
    #: The time columns; -1 for a join by processing time.
    left_time: int
    right_time: int
    is_event_time: bool = True

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("joinType", f"[{self.join_type.value}]"), self._where(infix), self._select()]


@dataclass(eq=False)
class WindowJoin(JoinNode):
    left_window: Window
    right_window: Window
    left_bounds: tuple[int, int]
    right_bounds: tuple[int, int]
    is_event_time: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [
            ("leftWindow", f"[{self._window(0, self.left_window, self.left_bounds)}]"),
            ("rightWindow", f"[{self._window(1, self.right_window, self.right_bounds)}]"),
            ("joinType", f"[{self.join_type.value}]"),
            self._where(infix),
            self._select(),
        ]

    def _window(self, place: int, window: Window, bounds: tuple[int, int]) -> str:
        names = self.inputs[place].names
        return window_text(window, f"win_start=[{names[bounds[0]]}], win_end=[{names[bounds[1]]}]")


@dataclass(eq=False)
class LookupJoin(PhysicalNode):
    table: Any
    source: Any
    join_type: JoinType
    #: (column of the table, expression over the input).
    keys: tuple[tuple[int, RexNode], ...]
    lookup_type: RowType
    lookup_condition: RexNode | None = None
    condition: RexNode | None = None
    #: None if rows are looked up one after the other.
    asynchronous: AsyncLookupOptions | None = None
    #: The delay in ms and the number of retries for keys that find nothing.
    retry: tuple[int, int] | None = None
    #: True if an exchange by the lookup's key is below.
    shuffle: bool = False
    #: True to keep the rows that were found, so that an update takes back what was sent.
    upsert_materialize: bool = False

    def terms(self, *, infix: bool = False) -> list[Term]:
        keys = ", ".join(
            f"{self.lookup_type.names[column]}={rex_text(value, self.input.names, infix=infix)}"
            for column, value in self.keys
        )
        terms = [
            ("table", f"[{self.table.identifier.as_summary_string()}]"),
            ("joinType", f"[{self.join_type.value}]"),
        ]
        options = self.async_options
        if options is not None:
            order = "ORDERED" if options.ordered else "UNORDERED"
            terms.append(("async", f"[{order}, KEY_ORDERED: false, {options.timeout_ms}ms, {options.capacity}]"))
        terms.append(("lookup", f"[{keys}]"))
        if self.lookup_condition is not None:
            terms.append(("where", f"[{rex_text(self.lookup_condition, self.lookup_type.names, infix=infix)}]"))
        terms.append(self._select())
        if self.upsert_materialize:
            terms.append(("upsertMaterialize", "[true]"))
        if self.retry is not None:
            terms.append(("retry", f"[lookup_miss, FIXED_DELAY, {self.retry[0]}ms, {self.retry[1]}]"))
        if self.shuffle:
            terms.append(("shuffle", "[true]"))
        return terms

    @property
    def async_options(self) -> AsyncLookupOptions | None:
        """How rows are looked up side by side. The changes of a row must not overtake each other."""
        if self.asynchronous is None or self.upsert_materialize:
            return None
        has_updates = bool(self.input.modify_kinds - INSERT_ONLY)
        return replace(self.asynchronous, ordered=self.asynchronous.ordered or has_updates)
