"""ExpressionBinder: turns the expressions of a statement into RexNodes.

Source: org.apache.calcite.sql2rel.SqlToRelConverter.Blackboard, StandardConvertletTable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatchmethod
from typing import TYPE_CHECKING

from flinkpy.common.errors import ValidationError
from flinkpy.graph.table_specs import SortField
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import FieldAccess, Literal, RexCall, RexNode, UserFunctionCall, walk
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder import literals, operators
from flinkpy.table.planner.binder import program_nodes as program
from flinkpy.table.planner.binder.data_types import interval_type, logical_type
from flinkpy.table.planner.binder.functions import FunctionResolver
from flinkpy.table.planner.binder.json_calls import json_aggregate, json_call
from flinkpy.table.planner.binder.scope import Scope
from flinkpy.table.planner.errors import invalid
from flinkpy.table.planner.logical.rex_nodes import OverCall, SubQuery
from flinkpy.table.planner.logical.time import as_regular, proctime_type

if TYPE_CHECKING:
    from flinkpy.table.planner.binder.queries import QueryBinder

#: Functions that are EXTRACT of a unit.
_UNIT_FUNCTIONS = {
    "YEAR": "YEAR",
    "QUARTER": "QUARTER",
    "MONTH": "MONTH",
    "WEEK": "WEEK",
    "DAYOFYEAR": "DOY",
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
    "HOUR": "HOUR",
    "MINUTE": "MINUTE",
    "SECOND": "SECOND",
}
#: Operators of pairs that bound a period of time.
PERIOD_PREDICATES = frozenset({"CONTAINS", "OVERLAPS", "EQUALS", "PRECEDES", "SUCCEEDS"})
#: Functions that need OVER and are no aggregates otherwise.
RANK_FUNCTIONS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LAG", "LEAD"})


class ExpressionBinder:
    """Binds the expressions of one clause.

    Args:
        queries: binds subqueries.
        scope: what names stand for.
        hook: called first with each node; returns its value, or None to bind it as usual.
        clause: the clause, for errors such as "Aggregate expression is illegal in WHERE clause".
        windows: the named windows of the query.
    """

    def __init__(
        self,
        queries: QueryBinder,
        scope: Scope,
        hook: Callable[[ast.Expression], RexNode | None] | None = None,
        clause: str = "",
        windows: dict[str, ast.WindowSpecification] | None = None,
    ) -> None:
        self._queries = queries
        self._functions: FunctionResolver = queries.functions
        self._scope = scope
        self._hook = hook
        self._clause = clause
        self._windows = windows or {}

    def bind(self, node: ast.Expression) -> RexNode:
        """Returns the expression. Raises: ValidationError, with the place of the culprit."""
        if self._hook is not None:
            found = self._hook(node)
            if found is not None:
                return found
        return self.bind_without_hook(node)

    def bind_without_hook(self, node: ast.Expression) -> RexNode:
        """Returns the expression, where the hook is called for the parts of the node and not for the node."""
        try:
            return self._bind(node)
        except ValidationError as error:
            if "SQL validation failed" in error.message:
                raise
            raise invalid(node, error.message) from error

    def condition(self, node: ast.Expression) -> RexNode:
        """Returns a BOOLEAN expression. Raises: ValidationError if it has another type."""
        value = self.bind(node)
        if value.type.root is lt.TypeRoot.NULL:
            return Literal(lt.BooleanType(), None)
        if not isinstance(value.type, lt.BooleanType):
            raise invalid(node, f"{self._clause or 'WHERE'} clause must be a condition, not {value.type}")
        return value

    @singledispatchmethod
    def _bind(self, node: ast.Expression) -> RexNode:
        aggregate = json_aggregate(node)
        if aggregate is not None:
            return self.bind(aggregate)
        found = literals.literal(node) or json_call(node, self.bind)
        if found is not None:
            return found
        raise invalid(node, f"{type(node).__name__} is not supported here")

    @_bind.register
    def _(self, node: ast.Star) -> RexNode:
        raise invalid(node, "Unknown identifier '*'")

    @_bind.register
    def _(self, node: ast.TableArgument) -> RexNode:
        raise invalid(node, "A table can only be an argument of a window function in FROM TABLE(...)")

    @_bind.register
    def _(self, node: ast.Identifier) -> RexNode:
        return self._scope.resolve(node)

    @_bind.register
    def _(self, node: program.Constant) -> RexNode:
        if node.type is None:
            return node.literal
        if node.literal.value is None:
            return Literal(node.type.as_nullable(), None)
        return self.explicit_cast(node, node.literal, node.type)

    @_bind.register
    def _(self, node: program.Interval) -> RexNode:
        operand = self.bind(node.operand)
        if operand.type.root not in of.EXACT_NUMERIC:
            return self.explicit_cast(node, operand, node.type)
        kind = operators.smallest_interval(node.type.as_nullable(operand.type.nullable))
        return RexCall(kind, "*", (operand, Literal(kind.as_nullable(False), 1)))

    # -- operators ---------------------------------------------------------------------------------------------------

    @_bind.register
    def _(self, node: ast.UnaryOperation) -> RexNode:
        operand = self.bind(node.operand)
        if node.operator == "NOT":
            return operators.not_(operand)
        if node.operator == "+":
            return operand
        if isinstance(operand, Literal) and operand.value is not None and not isinstance(operand.value, (bool, str)):
            if isinstance(node.operand, ast.IntegerLiteral):
                return literals.integer(-node.operand.value)
            is_interval = operand.type.root in of.INTERVAL
            kind = operators.smallest_interval(operand.type) if is_interval else operand.type
            return operators.negated(operand, kind)
        if operand.type.root not in of.NUMERIC and operand.type.root not in of.INTERVAL:
            raise invalid(node, f"Cannot apply '-' to arguments of type '-<{operand.type}>'")
        if operand.type.root in of.INTERVAL:
            return RexCall(operators.smallest_interval(operand.type), "NEGATE", (operand,))
        return RexCall(operand.type, "NEGATE", (operand,))

    @_bind.register
    def _(self, node: ast.BinaryOperation) -> RexNode:
        name = node.operator
        if name in PERIOD_PREDICATES:
            return self._period_predicate(node)
        if isinstance(node.left, ast.RowConstructor) and isinstance(node.right, ast.RowConstructor):
            return self._row_comparison(node, node.left, node.right)
        left, right = self.bind(node.left), self.bind(node.right)
        if name in operators._COMPARISONS:
            return operators.comparison(name, left, right)
        if name in ("+", "-", "*", "/"):
            return operators.arithmetic(name, left, right)
        if name == "%":
            return operators.arithmetic("MOD", left, right)
        return self._functions.call(name, (left, right))

    def _period_predicate(self, node: ast.BinaryOperation) -> RexNode:
        """Binds (start, end or length) OVERLAPS (start, end or length)."""
        if node.operator != "OVERLAPS":
            raise invalid(node, f"the predicate {node.operator} of periods is not supported; use OVERLAPS")
        bounds: list[RexNode] = []
        for period in (node.left, node.right):
            if not isinstance(period, ast.RowConstructor) or len(period.values) != 2:
                raise invalid(period, "a period of OVERLAPS must be a pair: (start, end) or (start, length)")
            start, end = (self.bind(each) for each in period.values)
            bounds += [start, operators.arithmetic("+", start, end) if end.type.root in of.INTERVAL else end]
        return self._functions.call("OVERLAPS", tuple(bounds))

    @_bind.register
    def _(self, node: ast.IntervalDifference) -> RexNode:
        left, right = self.bind(node.left), self.bind(node.right)
        for value in (left, right):
            if value.type.root not in of.DATETIME:
                raise invalid(node, f"Cannot apply '-' to arguments of type '<{left.type}> - <{right.type}>'")
        if left.type.root is not right.type.root:
            raise invalid(node, "Parameters must be of the same type")
        unit = "MONTH" if node.qualifier.start in ("YEAR", "QUARTER", "MONTH") else "SECOND"
        return self._functions.call("MINUS_DATE", (Literal(lt.SymbolType(nullable=False), unit), left, right))

    def _row_comparison(
        self, node: ast.BinaryOperation, left: ast.RowConstructor, right: ast.RowConstructor
    ) -> RexNode:
        if len(left.values) != len(right.values):
            raise invalid(node, "Unequal number of entries in ROW expressions")
        if node.operator not in ("=", "<>"):
            raise invalid(node, f"rows cannot be compared with '{node.operator}'")
        pairs = zip(left.values, right.values)
        equal = operators.and_([operators.comparison("=", self.bind(a), self.bind(b)) for a, b in pairs])
        return equal if node.operator == "=" else operators.not_(equal)

    @_bind.register
    def _(self, node: ast.LogicalOperation) -> RexNode:
        operands = [self._boolean(each) for each in node.operands]
        return operators.and_(operands) if node.operator == "AND" else operators.or_(operands)

    def _boolean(self, node: ast.Expression) -> RexNode:
        value = self.bind(node)
        if value.type.root is lt.TypeRoot.NULL:
            return Literal(lt.BooleanType(), None)
        if not isinstance(value.type, lt.BooleanType):
            raise invalid(node, f"Cannot apply AND or OR to an argument of type '<{value.type}>'; it needs BOOLEAN")
        return value

    @_bind.register
    def _(self, node: ast.IsPredicate) -> RexNode:
        operand = self.bind(node.operand)
        test = "NULL" if node.test == "UNKNOWN" else node.test
        return RexCall(lt.BooleanType(nullable=False), f"IS {'NOT ' if node.negated else ''}{test}", (operand,))

    @_bind.register
    def _(self, node: ast.Between) -> RexNode:
        operand, low, high = self.bind(node.operand), self.bind(node.low), self.bind(node.high)

        def between(a: RexNode, b: RexNode) -> RexNode:
            return operators.and_([operators.comparison(">=", operand, a), operators.comparison("<=", operand, b)])

        value = operators.or_([between(low, high), between(high, low)]) if node.symmetric else between(low, high)
        return operators.not_(value) if node.negated else value

    @_bind.register
    def _(self, node: ast.Like) -> RexNode:
        operands = [self.bind(node.operand), self.bind(node.pattern)]
        if node.escape is not None:
            operands.append(self.bind(node.escape))
        value: RexNode = RexCall(operators.boolean(*operands), node.operator, tuple(operands))
        return RexCall(value.type, "NOT", (value,)) if node.negated else value

    @_bind.register
    def _(self, node: ast.InList) -> RexNode:
        if isinstance(node.operand, ast.RowConstructor):
            rows = [ast.BinaryOperation("=", node.operand, each, position=each.position) for each in node.values]
            value = operators.or_([self.bind(each) for each in rows])
            return operators.not_(value) if node.negated else value
        operand = self.bind(node.operand)
        values = [self.bind(each) for each in node.values]
        common = operators.common_type(values)
        if common is None:
            types = ", ".join(str(each.type) for each in values)
            raise invalid(node, f"Values in expression list must have compatible types: {types}")
        if all(isinstance(each, Literal) for each in values):
            values = [operators.cast(each, common) for each in values]
            is_text = common.root in of.CHARACTER_STRING and operand.type.root in of.CHARACTER_STRING
            if is_text:
                equal = [RexCall(operators.boolean(operand, each), "=", (operand, each)) for each in values]
            else:
                equal = [operators.comparison("=", operand, each) for each in values]  # type: ignore[misc]
        else:
            equal = [operators.comparison("=", operand, each) for each in values]  # type: ignore[misc]
        value = operators.or_(list(equal))
        return operators.not_(value) if node.negated else value

    @_bind.register
    def _(self, node: ast.Case) -> RexNode:
        operand = None if node.operand is None else self.bind(node.operand)
        branches = []
        for branch in node.branches:
            tests = []
            for each in branch.conditions:
                test = self.bind(each) if operand is not None else self._boolean(each)
                tests.append(test if operand is None else operators.comparison("=", operand, test))
            branches.append((operators.or_(tests), self.bind(branch.result)))
        otherwise = Literal(lt.NullType(), None) if node.otherwise is None else self.bind(node.otherwise)
        return operators.case(branches, otherwise)

    @_bind.register
    def _(self, node: ast.Cast) -> RexNode:
        operand, target = self.bind(node.operand), logical_type(node.type)
        name = "TRY_CAST" if node.is_try else "CAST"
        if isinstance(node.type, ast.IntervalType) and operand.type.root in of.EXACT_NUMERIC:
            return self._interval(operand, node.type.qualifier)
        _check_numeric_cast(node, as_regular(operand.type), target)
        return self.explicit_cast(node, operand, target, name)

    def explicit_cast(self, node: ast.Node, operand: RexNode, target: lt.LogicalType, name: str = "CAST") -> RexNode:
        from flinkpy.sql.types.casting import supports_explicit_cast

        source = as_regular(operand.type)
        if source.root is not lt.TypeRoot.NULL and not supports_explicit_cast(
            source.as_nullable(), target.as_nullable()
        ):
            raise invalid(node, f"Cast function cannot convert value of type {source} to type {target}")
        nullable = operand.type.nullable or name == "TRY_CAST"
        if operators.same_type(operand.type, target) and operand.type == as_regular(operand.type):
            return operand
        if isinstance(operand, Literal):
            folded = operators.cast_literal(operand, target.as_nullable(nullable))
            if folded is not None:
                return folded
        return RexCall(target.as_nullable(nullable), name, (operand,))

    # -- rows and collections ----------------------------------------------------------------------------------------

    @_bind.register
    def _(self, node: ast.RowConstructor) -> RexNode:
        values = tuple(self.bind(each) for each in node.values)
        kind = lt.RowType(
            tuple(lt.RowField(f"EXPR${place}", each.type) for place, each in enumerate(values)), nullable=False
        )
        return RexCall(kind, "ROW", values)

    @_bind.register
    def _(self, node: ast.CollectionConstructor) -> RexNode:
        values = [self.bind(each) for each in node.values]
        if node.kind == "MAP":
            if len(values) % 2:
                raise invalid(node, "Map requires an even number of arguments")
            key, value = self._common(node, values[0::2]), self._common(node, values[1::2])
            parts = tuple(operators.cast(each, (key, value)[place % 2]) for place, each in enumerate(values))
            return RexCall(lt.MapType(key, value, nullable=False), "MAP", parts)
        element = self._common(node, values)
        kind = (
            lt.ArrayType(element, nullable=False) if node.kind == "ARRAY" else lt.MultisetType(element, nullable=False)
        )
        return RexCall(kind, node.kind, tuple(operators.cast(each, element) for each in values))

    def _common(self, node: ast.Node, values: list[RexNode]) -> lt.LogicalType:
        kind = operators.common_type(values) if values else lt.NullType()
        if kind is None:
            types = ", ".join(str(each.type) for each in values)
            raise invalid(node, f"Parameters must be of the same type, not {types}")
        return kind

    @_bind.register
    def _(self, node: ast.ElementAccess) -> RexNode:
        collection, index = self.bind(node.collection), self.bind(node.index)
        kind = collection.type
        if isinstance(kind, lt.ArrayType):
            element = kind.element
        elif isinstance(kind, lt.MapType):
            element, index = kind.value, operators.cast(index, kind.key)
        elif isinstance(kind, lt.VariantType) and index.type.root in of.CHARACTER_STRING | of.INTEGER_NUMERIC:
            element = kind
        elif isinstance(kind, lt.RowType) and isinstance(index, Literal):
            place = kind.names.index(index.value) if isinstance(index.value, str) else int(index.value) - 1
            if not 0 <= place < len(kind.fields):
                raise invalid(node, f"the row has {len(kind.fields)} fields, not one at {index.value}")
            return FieldAccess(kind.fields[place].type.as_nullable(), collection, place, kind.names[place])
        else:
            raise invalid(node, f"Cannot apply 'ITEM' to arguments of type 'ITEM(<{kind}>, <{index.type}>)'")
        return RexCall(element.as_nullable(), "ITEM", (collection, index))

    @_bind.register
    def _(self, node: ast.FieldAccess) -> RexNode:
        operand = self.bind(node.operand)
        kind = operand.type
        if not isinstance(kind, lt.RowType) or node.field.last not in kind.names:
            from flinkpy.table.planner.errors import did_you_mean

            known = kind.names if isinstance(kind, lt.RowType) else ()
            raise invalid(node.field, f"Unknown field '{node.field.last}'{did_you_mean(node.field.last, known)}")
        place = kind.names.index(node.field.last)
        inner = kind.fields[place].type
        return FieldAccess(inner.as_nullable(inner.nullable or kind.nullable), operand, place, node.field.last)

    @_bind.register
    def _(self, node: ast.IntervalExpression) -> RexNode:
        return self._interval(self.bind(node.operand), node.qualifier)

    @staticmethod
    def _interval(number: RexNode, qualifier: ast.IntervalQualifier) -> RexNode:
        """Returns the interval of a number of units."""
        kind = operators.smallest_interval(interval_type(qualifier, number.type.nullable))
        size = literals._MONTHS.get(qualifier.start) or literals._MILLIS[qualifier.start]
        return RexCall(kind, "*", (number, Literal(kind.as_nullable(False), size)))

    # -- functions ---------------------------------------------------------------------------------------------------

    @_bind.register
    def _(self, node: ast.FunctionCall) -> RexNode:
        name = node.function
        if node.over is not None:
            return self._over(node)
        if name in RANK_FUNCTIONS:
            raise invalid(node, f"OVER clause is necessary for window functions: {name}")
        if self._functions.is_aggregate(node.name):
            where = f" in {self._clause} clause" if self._clause else ""
            raise invalid(node, f"Aggregate expression is illegal{where}")
        if len(node.name.parts) == 1:
            special = self._special(node, name)
            if special is not None:
                return special
        arguments = tuple(self._argument(each) for each in node.arguments)
        return self._functions.resolve(node, arguments)

    def _argument(self, node: ast.Expression) -> RexNode:
        if isinstance(node, ast.NamedArgument):
            raise invalid(node, "named arguments are supported for table functions only")
        return self.bind(node)

    def _special(self, node: ast.FunctionCall, name: str) -> RexNode | None:
        """Returns the value of functions that are short for others."""
        if name == "PROCTIME" and not node.arguments:
            return RexCall(proctime_type(), "PROCTIME", ())
        if name == "CURRENT_DATABASE" and not node.arguments:
            database = self._queries.context.tables.current_database
            return Literal(lt.VarCharType(nullable=database is None), database)
        if name == "CURRENT_WATERMARK" and len(node.arguments) == 1:
            rowtime = self.bind(node.arguments[0])
            if not lt.is_rowtime(rowtime.type):
                raise invalid(
                    node,
                    "The argument of CURRENT_WATERMARK() must be a rowtime attribute, but was "
                    f"'{as_regular(rowtime.type)}'.",
                )
            return self._functions.call(name, (rowtime,))
        if name == "JSON":
            raise invalid(
                node,
                "The JSON() function is currently only supported inside JSON_ARRAY() or as the VALUE param of "
                """JSON_OBJECT(). Example: JSON_OBJECT('a', JSON('{"key": "value"}')) or """
                """JSON_ARRAY(JSON('{"key": "value"}')).""",
            )
        if name in _UNIT_FUNCTIONS and len(node.arguments) == 1:
            unit = Literal(lt.SymbolType(nullable=False), _UNIT_FUNCTIONS[name])
            operand = self.bind(node.arguments[0])
            if operand.type.root in of.DATETIME or operand.type.root in of.INTERVAL:
                return RexCall(lt.BigIntType(nullable=operand.type.nullable), "EXTRACT", (unit, operand))
            raise invalid(node, f"Cannot apply '{name}' to arguments of type '{name}(<{operand.type}>)'")
        if name == "MOD" and len(node.arguments) == 2:
            return operators.arithmetic("MOD", self.bind(node.arguments[0]), self.bind(node.arguments[1]))
        if name == "NULLIF" and len(node.arguments) == 2:
            left, right = self.bind(node.arguments[0]), self.bind(node.arguments[1])
            null = Literal(left.type.as_nullable(), None)
            return operators.case([(operators.comparison("=", left, right), null)], left)
        if name == "COALESCE" and node.arguments:
            return self._coalesce([self.bind(each) for each in node.arguments])
        return None

    def _coalesce(self, values: list[RexNode]) -> RexNode:
        kept = []
        for value in values:
            kept.append(value)
            if not value.type.nullable:
                break
        if len(kept) == 1:
            return kept[0]
        kind = operators.common_type(kept)
        if kind is None:
            types = ", ".join(str(each.type) for each in kept)
            raise ValidationError(f"Illegal mixing of types in CASE or COALESCE statement: {types}")
        nullable = all(each.type.nullable for each in kept)
        return RexCall(kind.as_nullable(nullable), "COALESCE", tuple(operators.cast(each, kind) for each in kept))

    @_bind.register
    def _(self, node: ast.Trim) -> RexNode:
        operand = self.bind(node.operand)
        blank = Literal(lt.CharType(1, nullable=False), " ")
        characters = blank if node.characters is None else self.bind(node.characters)
        mode = Literal(lt.SymbolType(nullable=False), node.mode)
        kind = lt.VarCharType(
            getattr(operand.type, "length", lt.MAX_LENGTH), nullable=operand.type.nullable or characters.type.nullable
        )
        return RexCall(kind, "TRIM", (mode, characters, operand))

    def _over(self, node: ast.FunctionCall) -> RexNode:
        specification = self._window(node)
        name = self._functions.aggregate_name(node)
        arguments = tuple(self.bind(each) for each in node.arguments if not isinstance(each, ast.Star))
        if node.filter is not None:
            condition = self.condition(node.filter)
            null = Literal(arguments[0].type.as_nullable(), None) if arguments else Literal(lt.BooleanType(), None)
            counted = arguments[0] if arguments else operators.TRUE
            arguments = (operators.case([(condition, counted)], null), *arguments[1:])
        partition = tuple(self.bind(each) for each in specification.partition_by)
        keys, fields = [], []
        for item in specification.order_by:
            ascending = not item.descending
            nulls_first = ascending if item.nulls_first is None else item.nulls_first
            keys.append(self.bind(item.expression))
            fields.append(SortField(0, ascending, nulls_first))
        is_rows, lower, upper = self._frame(node, specification, name, bool(keys))
        kind = self._functions.aggregate_type(node, arguments, is_grouped=not is_rows and lower is None)
        user = self._functions.user_aggregate(node.name, arguments)
        return OverCall(
            kind,
            name,
            arguments,
            partition,
            tuple(keys),
            tuple(fields),
            is_rows,
            lower,
            upper,
            node.quantifier == "DISTINCT",
            user,
        )

    def _window(self, node: ast.FunctionCall) -> ast.WindowSpecification:
        over = node.over
        if isinstance(over, ast.Identifier):
            if over.last not in self._windows:
                raise invalid(over, f"Window '{over.last}' not found")
            over = self._windows[over.last]
        assert over is not None
        if over.reference is not None:
            base = self._windows.get(over.reference.last)
            if base is None:
                raise invalid(over.reference, f"Window '{over.reference.last}' not found")
            return ast.WindowSpecification(
                None,
                over.partition_by or base.partition_by,
                over.order_by or base.order_by,
                over.frame or base.frame,
                position=over.position,
            )
        return over

    def _frame(
        self, node: ast.FunctionCall, specification: ast.WindowSpecification, name: str, is_ordered: bool
    ) -> tuple[bool, int | None, int | None]:
        frame = specification.frame
        if frame is None:
            if name in RANK_FUNCTIONS:
                return True, None, 0
            return False, None, 0 if is_ordered else None
        if name in RANK_FUNCTIONS:
            raise invalid(node, "ROW/RANGE not allowed with RANK, DENSE_RANK or ROW_NUMBER functions")
        lower = self._bound(frame.start)
        upper = 0 if frame.end is None else self._bound(frame.end)
        return frame.unit == "ROWS", lower, upper

    def _bound(self, bound: ast.FrameBound) -> int | None:
        if bound.kind.startswith("UNBOUNDED"):
            return None
        if bound.offset is None:
            return 0
        value = self.bind(bound.offset)
        if not isinstance(value, Literal) or not isinstance(value.value, int):
            raise invalid(bound, "Window frame bounds must be constants")
        return -value.value if bound.kind == "PRECEDING" else value.value

    # -- subqueries --------------------------------------------------------------------------------------------------

    @_bind.register
    def _(self, node: ast.ScalarSubquery) -> RexNode:
        plan = self._queries.subquery(node.query, self._scope)
        if plan.width != 1:
            raise invalid(node, f"a subquery that is a value must have one column, not {plan.width}")
        return SubQuery(as_regular(plan.type_of(0)).as_nullable(), "SCALAR", plan, (), self._scope.correlation)

    @_bind.register
    def _(self, node: ast.Exists) -> RexNode:
        plan = self._queries.subquery(node.query, self._scope)
        return SubQuery(lt.BooleanType(nullable=False), "EXISTS", plan, (), self._scope.correlation)

    @_bind.register
    def _(self, node: ast.InSubquery) -> RexNode:
        parts = node.operand.values if isinstance(node.operand, ast.RowConstructor) else (node.operand,)
        left = tuple(self.bind(each) for each in parts)
        plan = self._queries.subquery(node.query, self._scope)
        if plan.width != len(left):
            raise invalid(node, f"the subquery of IN has {plan.width} columns, the left side {len(left)}")
        nullable = any(each.type.nullable for each in left) or any(each.type.nullable for each in plan.row_type.fields)
        return SubQuery(lt.BooleanType(nullable=nullable), "IN", plan, left, self._scope.correlation, node.negated)

    @_bind.register
    def _(self, node: ast.QuantifiedComparison) -> RexNode:
        operand = self.bind(node.operand)
        if node.query is None:
            tests = [operators.comparison(node.operator, operand, self.bind(each)) for each in node.values]
            return operators.or_(tests) if node.quantifier == "SOME" else operators.and_(tests)
        plan = self._queries.subquery(node.query, self._scope)
        if (node.operator, node.quantifier) in (("=", "SOME"), ("<>", "ALL")):
            negated = node.quantifier == "ALL"
            return SubQuery(lt.BooleanType(), "IN", plan, (operand,), self._scope.correlation, negated)
        kind = f"{node.operator} {node.quantifier}"
        return SubQuery(lt.BooleanType(), kind, plan, (operand,), self._scope.correlation)


def _check_numeric_cast(node: ast.Node, source: lt.LogicalType, target: lt.LogicalType) -> None:
    """Raises: ValidationError for casts between numbers and times, of which Flink rejects more than its rules say."""
    between = (source.root in of.NUMERIC, target.root in of.NUMERIC)
    if between == (False, True) and source.root in of.INTERVAL:
        raise invalid(node, f"Cast function cannot convert value of type {source} to type {target}")
    if not any(between) or (source.root not in of.TIMESTAMP and target.root not in of.TIMESTAMP):
        return
    is_zoned = lt.TypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE in (source.root, target.root)
    time = "TIMESTAMP_LTZ" if is_zoned else "TIMESTAMP"
    kinds = ("NUMERIC", time) if between[0] else (time, "NUMERIC")
    advice = {
        ("NUMERIC", "TIMESTAMP"): "It's recommended to use TO_TIMESTAMP(FROM_UNIXTIME(numeric_col)) instead, note the "
        "numeric is in seconds.",
        ("NUMERIC", "TIMESTAMP_LTZ"): "It's recommended to use TO_TIMESTAMP_LTZ(numeric_col, precision) instead.",
        ("TIMESTAMP", "NUMERIC"): "It's recommended to use UNIX_TIMESTAMP(CAST(timestamp_col AS STRING)) instead.",
    }.get(kinds, "")
    raise invalid(node, f"The cast from {kinds[0]} type to {kinds[1]} type is not allowed. {advice}".strip())


def is_deterministic(node: RexNode) -> bool:
    """True if the expression has the same value each time it is evaluated over the same row."""
    return nondeterministic_call(node) is None


#: Functions whose value is another one at another time.
_VOLATILE = frozenset(
    {
        "RAND",
        "RAND_INTEGER",
        "UUID",
        "PROCTIME",
        "NOW",
        "CURRENT_TIMESTAMP",
        "CURRENT_ROW_TIMESTAMP",
        "LOCALTIMESTAMP",
        "CURRENT_TIME",
        "LOCALTIME",
        "CURRENT_DATE",
        "UNIX_TIMESTAMP",
        "CURRENT_WATERMARK",
    }
)


def nondeterministic_call(node: RexNode) -> str | None:
    """Returns the first function in the expression that may have several values for one row; None if there is none."""
    for each in walk(node):
        if (
            isinstance(each, RexCall)
            and each.function in _VOLATILE
            and not (each.function == "UNIX_TIMESTAMP" and each.arguments)
        ):
            return each.function
        if isinstance(each, UserFunctionCall) and not each.is_deterministic:
            return each.name
    return None
