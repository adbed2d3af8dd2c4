"""MatchRecognizeBinder: binds MATCH_RECOGNIZE.

In DEFINE and MEASURES, `A.price` is the price of the last row of the pattern variable A, and `price` that of the last
row of all. FIRST and LAST with an offset choose another row; an expression inside of them is computed from that row.

Source: org.apache.calcite.sql.validate.SqlValidatorImpl.validateMatchRecognize,
org.apache.flink.table.planner.plan.nodes.exec.common.CommonExecMatch.PatternVisitor.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkpy.cep.nfa_compiler import compile_pattern
from flinkpy.cep.pattern import AfterMatchSkipStrategy, Pattern, PatternVariable, Quantifier, SkipMode
from flinkpy.common.errors import TableProgramError
from flinkpy.graph.table_specs import SortField
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser.unparse import unparse
from flinkpy.sql.rex import (
    ALL_ROWS,
    InputRef,
    Literal,
    PatternAggregate,
    PatternNavigation,
    RexCall,
    RexNode,
    rewrite,
    walk,
)
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder.expressions import ExpressionBinder
from flinkpy.table.planner.binder.scope import Relation, Scope
from flinkpy.table.planner.errors import invalid
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.time import as_regular, proctime_type

if TYPE_CHECKING:
    from flinkpy.table.planner.binder.queries import QueryBinder

#: Calls that choose rows: by position in the pattern, or in the partition.
_LOGICAL, _PHYSICAL = frozenset({"FIRST", "LAST"}), frozenset({"PREV", "NEXT"})
_SEMANTICS = frozenset({"RUNNING", "FINAL"})
_QUERIES = (ast.ScalarSubquery, ast.Exists, ast.InSubquery, ast.QuantifiedComparison)


def bind_match(
    queries: QueryBinder, node: ast.MatchRecognize, plan: rel.RelNode, scope: Scope, outer: Scope | None
) -> tuple[rel.RelNode, Scope]:
    """Returns the plan of MATCH_RECOGNIZE over a bound table, and the scope of its result."""
    bound = _MatchRecognizeBinder(queries, node, plan, scope).bind()
    return bound, queries.scope([Relation((), bound.names, 0, bound.row_type)], outer)


class _MatchRecognizeBinder:
    def __init__(self, queries: QueryBinder, node: ast.MatchRecognize, plan: rel.RelNode, scope: Scope) -> None:
        self._queries = queries
        self._node = node
        self._plan = plan
        self._scope = scope

    def bind(self) -> rel.Match:
        node = self._node
        self._check_supported()
        columns = [self._column(each) for each in node.partition_by]
        partition = tuple(dict.fromkeys(columns))
        order = tuple(self._order(each) for each in node.order_by)
        variables = self._variables(node.pattern)
        names = [each.name for each in variables]
        for variable, name in zip(variables, names, strict=True):
            if names.count(name) > 1:
                raise TableProgramError(
                    f"Pattern variables must be unique. That might change in the future. '{variable.name}' occurs "
                    "several times."
                )
        pattern = Pattern(tuple(variables), self._skip(names), self._within())
        self._check_pattern(pattern)
        definitions = self._definitions(names)
        measures = self._measures(names)
        taken = [self._plan.names[each] for each in partition] + [name for name, _ in measures]
        if ambiguous := sorted({each for each in taken if taken.count(each) > 1}):
            raise invalid(node, f"Columns ambiguously defined: {{{', '.join(ambiguous)}}}")
        return rel.Match(self._plan, partition, order, pattern, definitions, measures)

    def _check_supported(self) -> None:
        node = self._node
        if node.all_rows:
            raise TableProgramError("All rows per match mode is not supported yet.")
        if node.subsets:
            raise invalid(node.subsets[0], "SUBSET in MATCH_RECOGNIZE is not supported")
        if node.strict_start or node.strict_end:
            raise invalid(node.pattern, "the anchors ^ and $ of a PATTERN are not supported")

    def _column(self, node: ast.Expression) -> int:
        value = self._scope.resolve(node) if isinstance(node, ast.Identifier) else None
        if not isinstance(value, InputRef):
            raise invalid(node, "PARTITION BY and ORDER BY of MATCH_RECOGNIZE take columns, not expressions")
        return value.index

    def _order(self, item: ast.OrderItem) -> SortField:
        ascending = not item.descending
        nulls_first = ascending if item.nulls_first is None else item.nulls_first
        return SortField(self._column(item.expression), ascending, nulls_first)

    # -- PATTERN, AFTER MATCH and WITHIN ------------------------------------------------------------------------------

    def _variables(self, pattern: ast.Pattern) -> list[PatternVariable]:
        match pattern:
            case ast.PatternVariable():
                return [PatternVariable(pattern.name.last)]
            case ast.PatternConcatenation():
                return [each for element in pattern.elements for each in self._variables(element)]
            case ast.PatternQuantifier():
                return [self._quantified(pattern)]
            case ast.PatternAlternation():
                reason = "Currently, CEP doesn't support branching patterns."
            case ast.PatternPermutation():
                reason = "Currently, CEP doesn't support PERMUTE patterns."
            case ast.PatternExclusion():
                reason = "Currently, CEP doesn't support '{-' '-}' patterns."
            case _:
                reason = ""
        raise TableProgramError(f"Expression not supported: {unparse(pattern)}. {reason}")

    def _quantified(self, node: ast.PatternQuantifier) -> PatternVariable:
        if not isinstance(node.pattern, ast.PatternVariable):
            raise TableProgramError(
                f"Expression not supported: {unparse(node.pattern)} Group patterns are not supported yet."
            )
        if node.reluctant and (node.minimum, node.maximum) == (0, 1):
            raise TableProgramError("Reluctant optional variables are not supported yet.")
        quantifier = Quantifier.between(node.minimum, node.maximum, is_greedy=not node.reluctant)
        return PatternVariable(node.pattern.name.last, quantifier)

    def _skip(self, names: list[str]) -> AfterMatchSkipStrategy:
        after = self._node.after_match
        if after is None:
            return AfterMatchSkipStrategy(SkipMode.TO_NEXT)
        if after.variable is None:
            is_past = after.mode == "PAST LAST ROW"
            return AfterMatchSkipStrategy(SkipMode.PAST_LAST if is_past else SkipMode.TO_NEXT)
        if after.variable.last not in names:
            raise invalid(after.variable, f"Unknown pattern '{after.variable.last}'")
        mode = SkipMode.TO_FIRST if after.mode == "TO FIRST" else SkipMode.TO_LAST
        return AfterMatchSkipStrategy(mode, after.variable.last)

    def _within(self) -> int | None:
        if self._node.within is None:
            return None
        value = ExpressionBinder(self._queries, self._scope).bind(self._node.within)
        if not isinstance(value, Literal) or not isinstance(value.type, lt.DayTimeIntervalType):
            raise TableProgramError(
                "Only constant intervals with millisecond resolution are supported as time constraints of patterns."
            )
        return int(value.value) or None

    def _check_pattern(self, pattern: Pattern) -> None:
        variables = pattern.variables
        for before, each in itertools.pairwise(variables):
            is_checked = each.quantifier.is_optional and each.quantifier.maximum in (1, None)
            if before.quantifier.is_greedy and is_checked:
                raise TableProgramError(
                    f"Optional pattern cannot be preceded by greedy pattern: '{each.name}' follows '{before.name}'."
                )
        if compile_pattern(pattern).can_match_nothing():
            raise TableProgramError(
                "Patterns that can produce empty matches are not supported. There must be at least one non-optional "
                "state."
            )
        if variables[-1].quantifier.is_greedy:
            raise TableProgramError(
                "Greedy quantifiers are not allowed as the last element of a Pattern yet. Finish your pattern with "
                "either a simple variable or reluctant quantifier."
            )

    # -- DEFINE and MEASURES ------------------------------------------------------------------------------------------

    def _definitions(self, names: list[str]) -> tuple[tuple[str, RexNode], ...]:
        found: dict[str, RexNode] = {}
        for each in self._node.definitions:
            name = each.name.last
            if name in found:
                raise invalid(each, f"Pattern variable '{name}' has already been defined")
            binder = _PatternExpressions(self._queries, self._plan, self._scope, [*names, name], is_definition=True)
            value = binder.bind(each.condition, "DEFINE")
            if not isinstance(value.type, lt.BooleanType):
                raise invalid(each.condition, "DEFINE clause must be a condition")
            found[name] = value
        # A definition of a variable that the pattern does not have has no meaning; Flink accepts it.
        return tuple((name, value) for name, value in found.items() if name in names)

    def _measures(self, names: list[str]) -> tuple[tuple[str, RexNode], ...]:
        measures = []
        for each in self._node.measures:
            binder = _PatternExpressions(self._queries, self._plan, self._scope, names, is_definition=False)
            measures.append((each.name.last, binder.bind(each.expression, "MEASURES")))
        return tuple(measures)


class _PatternExpressions:
    """Binds one expression of DEFINE or MEASURES."""

    def __init__(
        self, queries: QueryBinder, plan: rel.RelNode, scope: Scope, variables: list[str], *, is_definition: bool
    ) -> None:
        self._queries = queries
        self._plan = plan
        self._scope = scope
        self._is_definition = is_definition
        relations = [Relation((name,), plan.names, 0, plan.row_type) for name in dict.fromkeys(variables)]
        self._variables = queries.scope(relations, None)
        self._names = frozenset(variables)
        self._binder = ExpressionBinder(queries, self._variables, self._hook, clause="")

    def bind(self, node: ast.Expression, clause: str) -> RexNode:
        self._binder._clause = clause
        if isinstance(node, ast.FunctionCall) and node.function == "FINAL" and not self._is_definition:
            node = node.arguments[0]
        return self._binder.bind(node)

    def _hook(self, node: ast.Expression) -> RexNode | None:
        if isinstance(node, ast.Identifier):
            return self._reference(node)
        if isinstance(node, _QUERIES):
            raise invalid(node, "subqueries are not supported in MATCH_RECOGNIZE")
        if not isinstance(node, ast.FunctionCall) or len(node.name.parts) != 1:
            return self._aggregate(node) if isinstance(node, ast.FunctionCall) else None
        name = node.function
        if name in _SEMANTICS:
            if self._is_definition:
                raise invalid(node, f"Cannot use RUNNING/FINAL in DEFINE '{unparse(node)}'")
            if name == "RUNNING":
                raise invalid(node, "Unsupported call: RUNNING. With ONE ROW PER MATCH all measures are final.")
            return self._binder.bind(node.arguments[0])
        if name in _LOGICAL:
            return self._logical(node)
        if name in _PHYSICAL:
            return self._physical(node)
        if name in ("MATCH_ROWTIME", "MATCH_PROCTIME"):
            return self._match_time(node)
        if name in ("CLASSIFIER", "MATCH_NUMBER"):
            raise invalid(node, f"Unsupported call: {name}()")
        return self._aggregate(node)

    def _reference(self, node: ast.Identifier) -> RexNode:
        """Returns the value of a column in the last row of a variable, or of all rows."""
        name = ALL_ROWS
        if len(node.parts) > 1 and node.parts[0] in self._names:
            name, relation = node.parts[0], self._variables
        elif len(node.parts) > 1 and node.parts[0] not in self._plan.names:
            raise invalid(node, f"Table '{node.parts[0]}' not found")
        else:
            relation = self._queries.scope([Relation((), self._plan.names, 0, self._plan.row_type)], None)
        value = relation.resolve(node)

        def change(each: RexNode) -> RexNode | None:
            return _navigation(name, each) if isinstance(each, InputRef) else None

        return rewrite(value, change)

    def _logical(self, node: ast.FunctionCall) -> RexNode:
        value = self._binder.bind(node.arguments[0])
        if any(isinstance(each, PatternAggregate) for each in walk(value)):
            raise invalid(node, f"aggregates cannot be used in {node.function}")
        nested = [each for each in ast_calls(node.arguments[0]) if each.function in _LOGICAL | _PHYSICAL]
        if nested:
            raise invalid(nested[0], f"Cannot nest PREV/NEXT under LAST/FIRST '{unparse(nested[0])}'")
        self._one_variable(node, value)
        offset = self._offset(node, 0)

        def change(each: RexNode) -> RexNode | None:
            if not isinstance(each, PatternNavigation):
                return None
            return replace(each, is_first=node.function == "FIRST", offset=offset)

        return rewrite(value, change)

    def _physical(self, node: ast.FunctionCall) -> RexNode:
        if not self._is_definition:
            raise invalid(node, f"Cannot use PREV/NEXT in MEASURE '{unparse(node)}'")
        if self._offset(node, 1):
            raise TableProgramError("Flink does not support physical offsets within partition.")
        return self._binder.bind(node.arguments[0])

    def _offset(self, node: ast.FunctionCall, default: int) -> int:
        if len(node.arguments) < 2:
            return default
        value = self._binder.bind(node.arguments[1])
        if len(node.arguments) > 2 or not isinstance(value, Literal) or not isinstance(value.value, int):
            raise invalid(node, f"the offset of {node.function} must be an integer constant")
        if value.value < 0:
            raise invalid(node, f"the offset of {node.function} must not be negative, but is {value.value}")
        return value.value

    def _one_variable(self, node: ast.FunctionCall, *values: RexNode) -> str:
        """Returns the variable of all columns in the values. Raises: ValidationError if there are several, or none."""
        found = {each.variable for value in values for each in walk(value) if isinstance(each, PatternNavigation)}
        if len(found) > 1:
            raise invalid(node, f"Multiple pattern variables in '{unparse(node)}'")
        if not found and values:
            raise invalid(node, f"No pattern variable specified in '{unparse(node)}'")
        return found.pop() if found else ALL_ROWS

    def _aggregate(self, node: ast.FunctionCall) -> RexNode | None:
        functions = self._queries.functions
        if not functions.is_aggregate(node.name):
            return None
        if node.over is not None:
            raise invalid(node, "OVER is not supported in MATCH_RECOGNIZE")
        if node.quantifier == "DISTINCT":
            raise invalid(node, f"DISTINCT/ALL not allowed with {unparse(node)} function")
        if node.filter is not None or node.order_by or node.within_group:
            raise invalid(node, f"FILTER and ORDER BY are not supported in {node.function} of MATCH_RECOGNIZE")
        values = tuple(self._binder.bind(each) for each in node.arguments if not isinstance(each, ast.Star))
        for value in values:
            for each in walk(value):
                if isinstance(each, PatternAggregate) or (isinstance(each, PatternNavigation) and each.offset):
                    raise invalid(node, f"aggregates and offsets cannot be nested in '{unparse(node)}'")
        variable = self._one_variable(node, *values)
        kind = as_regular(functions.aggregate_type(node, values, is_grouped=False))
        user = functions.user_aggregate(node.name, values)

        def row_value(each: RexNode) -> RexNode | None:
            if not isinstance(each, PatternNavigation):
                return None
            return InputRef(self._plan.type_of(each.column.index), each.column.index)  # type: ignore[attr-defined]

        arguments = tuple(rewrite(each, row_value) for each in values)
        return PatternAggregate(kind, functions.aggregate_name(node), variable, arguments, user)

    def _match_time(self, node: ast.FunctionCall) -> RexNode:
        if self._is_definition:
            raise invalid(node, f"{node.function}() can only be used in MEASURES")
        if node.function == "MATCH_PROCTIME":
            return RexCall(proctime_type(), "MATCH_PROCTIME", ())
        if node.arguments:
            column = self._scope.resolve(node.arguments[0]) if isinstance(node.arguments[0], ast.Identifier) else None
            if column is None or not lt.is_rowtime(column.type):
                raise invalid(node, "The function MATCH_ROWTIME requires argument to be a row time attribute type")
            return RexCall(column.type.not_null(), "MATCH_ROWTIME", ())
        kinds = [each.type for each in self._plan.row_type.fields if lt.is_rowtime(each.type)]
        kind = kinds[0] if kinds else lt.TimestampType(3, lt.TimeAttribute.ROWTIME, nullable=False)
        return RexCall(kind.not_null(), "MATCH_ROWTIME", ())


def _navigation(variable: str, column: RexNode) -> RexNode:
    if lt.is_proctime(column.type):
        return RexCall(as_regular(column.type), "PROCTIME", ())
    return PatternNavigation(as_regular(column.type).as_nullable(), variable, column)


def ast_calls(node: ast.Node) -> list[ast.FunctionCall]:
    """Returns all calls in an expression, outer ones first."""
    found = [node] if isinstance(node, ast.FunctionCall) else []
    for each in node.children():
        found += ast_calls(each)
    return found
