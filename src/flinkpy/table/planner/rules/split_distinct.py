"""Splits DISTINCT aggregates in two, so that the distinct values of one large group are spread over all subtasks.

The partial aggregation groups by a bucket of the distinct value, too; the final one adds up the results of the
buckets. If there are several distinct columns, each row is emitted once per column, with the buckets of the others
NULL, and each aggregate takes the rows of its own column.

Source: org.apache.flink.table.planner.plan.rules.logical.SplitAggregateRule.
Differs: windows are not split, and neither are aggregations with FIRST_VALUE, LAST_VALUE or LISTAGG, because buckets do
not keep the order of rows.
"""

from __future__ import annotations

from dataclasses import replace

from flinkpy.sql.rex import AggregateCall, Literal, RexCall, RexNode
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.merging import find_sum_agg_type
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.rules.grouping_sets import set_number

_BIGINT = lt.BigIntType(nullable=False)
_INT = lt.IntType(nullable=False)
_BOOLEAN = lt.BooleanType(nullable=False)
_ORDERED = frozenset({"MIN", "MAX"})
#: The functions of the partial and of the final aggregation.
_PHASES = {
    "COUNT": (("COUNT", "$SUM0"),),
    "SUM": (("SUM", "SUM"),),
    "SUM0": (("$SUM0", "$SUM0"),),
    "$SUM0": (("$SUM0", "$SUM0"),),
    "MIN": (("MIN", "MIN"),),
    "MAX": (("MAX", "MAX"),),
    "AVG": (("$SUM0", "$SUM0"), ("COUNT", "$SUM0")),
}


def split_distinct_aggregates(plan: rel.RelNode, buckets: int) -> rel.RelNode:
    """Returns the plan with each aggregation of distinct values as a partial and a final one.

    Args:
        buckets: the number of buckets of each distinct column.
    """

    def change(node: rel.RelNode) -> rel.RelNode:
        if isinstance(node, rel.Aggregate) and _can_split(node):
            return _SplitAggregate(node, buckets).plan()
        return node

    return rel.transform(plan, change)


def _can_split(node: rel.Aggregate) -> bool:
    return (
        node.partial_final is None
        and any(each.is_distinct and each.function not in _ORDERED for each in node.aggregates)
        and all(each.function in _PHASES and each.user_function is None for each in node.aggregates)
    )


def _has_bucket(call: AggregateCall) -> bool:
    """True if the call is computed per bucket of its arguments. With MIN and MAX a retraction keeps all values."""
    return call.is_distinct or call.function in _ORDERED


class _SplitAggregate:
    def __init__(self, node: rel.Aggregate, buckets: int) -> None:
        self._node = node
        self._count = buckets
        hashed = {each for call in node.aggregates if _has_bucket(call) for each in call.arguments}
        #: For each column with buckets, the column of its bucket.
        self._buckets = {
            column: node.input.width + place for place, column in enumerate(sorted(hashed - set(node.grouping)))
        }
        #: The keys of the rows that each call aggregates.
        self._keys = {number: self._keys_of(call) for number, call in enumerate(node.aggregates)}
        self._sets = list(dict.fromkeys(sorted(self._keys.values(), key=len, reverse=True)))
        self._full = tuple(sorted({*node.grouping, *self._buckets.values()}))

    def _keys_of(self, call: AggregateCall) -> tuple[int, ...]:
        own = call.arguments if _has_bucket(call) else ()
        return tuple(sorted({*self._node.grouping, *(self._buckets[each] for each in own if each in self._buckets)}))

    def plan(self) -> rel.RelNode:
        node = self._node
        with_buckets = self._with_buckets(node.input)
        if sum(len(keys) > len(node.grouping) for keys in self._sets) > 1:
            below, filters = self._expanded(with_buckets)
        else:
            below, filters = with_buckets, {}
        partial, final = self._calls(below, filters)
        ttl = node.state_ttl_ms
        first = rel.Aggregate(below, self._full, partial, state_ttl_ms=ttl, partial_final="PARTIAL")
        keys = tuple(self._full.index(each) for each in node.grouping)
        places = iter(range(len(self._full), first.width))
        calls = tuple(replace(each, arguments=(next(places),)) for each in final)
        last = rel.Aggregate(first, keys, calls, state_ttl_ms=ttl, partial_final="FINAL")
        return self._results(last)

    def _with_buckets(self, below: rel.RelNode) -> rel.RelNode:
        if not self._buckets:
            return below
        columns = list(below.references())
        for column in self._buckets:
            hashed = RexCall(_INT.as_nullable(columns[column].type.nullable), "HASH_CODE", (columns[column],))
            columns.append(operators.arithmetic("MOD", hashed, Literal(_INT, self._count)))
        names = rel.unique_names((*below.names, *(f"$f{place}" for place in self._buckets.values())))
        return rel.Project(below, tuple(columns), names)

    def _expanded(self, below: rel.RelNode) -> tuple[rel.RelNode, dict[tuple[tuple[int, ...], int | None], int]]:
        """Returns each row once per set of keys, and the column that selects the rows of a set and a filter."""
        references = below.references()
        buckets = set(self._buckets.values())
        projections = tuple(
            (
                *(
                    Literal(each.type.as_nullable(), None) if place in buckets and place not in keys else each
                    for place, each in enumerate(references)
                ),
                Literal(_BIGINT, set_number(self._full, keys)),
            )
            for keys in self._sets
        )
        types = [each.type.as_nullable() if at in buckets else each.type for at, each in enumerate(references)]
        expand = rel.Expand(below, projections, rel.row_of((*below.names, "$e"), (*types, _BIGINT)))
        *columns, number = expand.references()
        names = list(below.names)
        filters: dict[tuple[tuple[int, ...], int | None], int] = {}
        for place, call in enumerate(self._node.aggregates):
            wanted = (self._keys[place], call.filter_index)
            if wanted in filters:
                continue
            bits = set_number(self._full, wanted[0])
            tests: list[RexNode] = [operators.comparison("=", number, Literal(_BIGINT, bits))]
            if call.filter_index is not None:
                tests.append(columns[call.filter_index])
            filters[wanted] = len(columns)
            columns.append(self._true(operators.and_(tests)))
            names.append(f"$g_{bits}")
        return rel.Project(expand, tuple(columns), rel.unique_names(tuple(names))), filters

    @staticmethod
    def _true(test: RexNode) -> RexNode:
        return RexCall(_BOOLEAN, "IS TRUE", (test,)) if test.type.nullable else test

    def _calls(
        self, below: rel.RelNode, filters: dict[tuple[tuple[int, ...], int | None], int]
    ) -> tuple[tuple[AggregateCall, ...], list[AggregateCall]]:
        partial: list[AggregateCall] = []
        final: list[AggregateCall] = []
        for number, call in enumerate(self._node.aggregates):
            for first, last in _PHASES[call.function]:
                kind = self._partial_type(call, first, below)
                own = filters.get((self._keys[number], call.filter_index), call.filter_index)
                name = f"$f{len(self._full) + len(partial)}_0"
                partial.append(replace(call, function=first, type=kind, name=name, filter_index=own))
                is_whole = len(_PHASES[call.function]) == 1
                name = call.name if is_whole else f"$f{len(self._node.grouping) + len(final)}"
                final.append(AggregateCall(last, (), call.type if is_whole else kind, name))
        return tuple(partial), final

    @staticmethod
    def _partial_type(call: AggregateCall, function: str, below: rel.RelNode) -> lt.LogicalType:
        if function == "COUNT":
            return _BIGINT
        if call.function == "AVG":
            return find_sum_agg_type(below.type_of(call.arguments[0])).not_null()
        # A bucket may have no rows of the call, also where the group has some.
        return call.type if function == "$SUM0" else call.type.as_nullable()

    def _results(self, last: rel.Aggregate) -> rel.RelNode:
        if all(call.function != "AVG" for call in self._node.aggregates):
            return last
        references = last.references()
        count = len(self._node.grouping)
        columns: list[RexNode] = list(references[:count])
        place = count
        for call in self._node.aggregates:
            if call.function != "AVG":
                columns.append(references[place])
                place += 1
                continue
            total, number = references[place : place + 2]
            place += 2
            is_empty = operators.comparison("=", number, Literal(_BIGINT, 0))
            mean = operators.cast(operators.arithmetic("/", total, number), call.type)
            columns.append(operators.case([(is_empty, Literal(call.type.as_nullable(), None))], mean))
        return rel.Project(last, tuple(columns), self._node.names)
