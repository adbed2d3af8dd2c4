"""OperationTreeBuilder: turns the methods of Table into logical plans.

Each method becomes the syntax tree of the query that SQL would have for it, over the plans of its tables, and the
binder of SQL binds it.

Source: org.apache.flink.table.operations.utils.OperationTreeBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from flinkpy.common.errors import ValidationError
from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser.nodes.base import walk
from flinkpy.sql.rex import UNNEST, FieldAccess, InputRef, RexCall, RexNode, UserFunctionCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.expression_nodes import ExpressionNode, UnresolvedCall, UnresolvedReference, ValueLiteral
from flinkpy.table.planner.binder.column_selections import expanded, flattened
from flinkpy.table.planner.binder.expressions import ExpressionBinder
from flinkpy.table.planner.binder.functions import CollectedRows
from flinkpy.table.planner.binder.process_table_functions import bind_process_table_function
from flinkpy.table.planner.binder.program_expressions import WINDOW_PROPERTIES, syntax_of
from flinkpy.table.planner.binder.program_nodes import BoundQuery, BoundTable, ColumnReference
from flinkpy.table.planner.binder.queries import QueryBinder
from flinkpy.table.planner.binder.scope import Relation
from flinkpy.table.planner.binder.table_references import TableReferenceBinder
from flinkpy.table.planner.context import PlannerContext
from flinkpy.table.planner.errors import did_you_mean
from flinkpy.table.planner.logical import nodes as rel

Nodes = Sequence[ExpressionNode]


@dataclass(frozen=True)
class GroupWindowCall:
    """A group window.

    Attributes:
        alias: the name under which the query knows it.
        function: TUMBLE, HOP or SESSION.
        time: the time attribute.
        sizes: the arguments of the function after the time.
    """

    alias: str
    function: str
    time: ExpressionNode
    sizes: tuple[ExpressionNode, ...]

    def call(self, suffix: str = "") -> UnresolvedCall:
        """Returns the call of the window's function, or with a suffix that of one of its properties."""
        return UnresolvedCall(f"{self.function}{suffix}", (self.time, *self.sizes), is_lookup=True)


@dataclass(frozen=True)
class OverWindowCall:
    """An OVER window.

    Attributes:
        alias: the name under which the query knows it.
        frame: None for the one that SQL has without a frame.
    """

    alias: str
    partition: tuple[ExpressionNode, ...]
    order: ExpressionNode
    frame: ast.WindowFrame | None

    def syntax(self) -> ast.NamedWindow:
        order = ast.OrderItem(*_ordered(self.order))
        partition = tuple(map(syntax_of, self.partition))
        return ast.NamedWindow(
            ast.Identifier.of(self.alias), ast.WindowSpecification(None, partition, (order,), self.frame)
        )


@dataclass(frozen=True)
class Grouping:
    """The keys and the window by which a query groups rows.

    Attributes:
        keys: expressions, which may have aliases.
        window: None for a grouping without a window.
    """

    keys: tuple[ExpressionNode, ...] = ()
    window: GroupWindowCall | None = None

    @property
    def named_keys(self) -> dict[str, ExpressionNode]:
        """The keys with aliases, by alias."""
        return {_value(key.arguments[1]): key.arguments[0] for key in self.keys if _is_call(key, "as")}

    def plain_keys(self) -> list[ExpressionNode]:
        return [key.arguments[0] if _is_call(key, "as") else key for key in self.keys]

    def resolved(self, node: ExpressionNode) -> ExpressionNode:
        """Returns an expression with the names of keys and the properties of the window replaced by calls."""
        named = self.named_keys

        def change(each: ExpressionNode) -> ExpressionNode | None:
            if isinstance(each, UnresolvedReference):
                return named.get(each.name)
            found = self._property(each)
            return None if found is None else found[0].call(f"_{WINDOW_PROPERTIES[found[1]]}")

        return _rewritten(node, change)

    def on_properties(self, node: ExpressionNode) -> ExpressionNode:
        """Returns an expression with the properties of the window replaced by the columns that hold them."""

        def change(each: ExpressionNode) -> ExpressionNode | None:
            found = self._property(each)
            return None if found is None else UnresolvedReference(window_property_name(found[1]))

        return _rewritten(node, change)

    def with_property_names(self, nodes: Nodes) -> list[ExpressionNode]:
        """Returns expressions with the names that Flink gives to properties of the window without an alias."""
        numbers: dict[ExpressionNode, int] = {}
        for node in nodes:
            for part in _parts(node):
                if self._property(part) is not None:
                    numbers.setdefault(part, len(numbers))
        return [
            UnresolvedCall("as", (node, ValueLiteral(f"EXPR${numbers[node]}"))) if node in numbers else node
            for node in nodes
        ]

    def _property(self, node: ExpressionNode) -> tuple[GroupWindowCall, str] | None:
        """Returns the window and the name of its property; None if the node is no property of a window."""
        if not _is_call(node, *WINDOW_PROPERTIES):
            return None
        owner = node.arguments[0]
        if self.window is None or not isinstance(owner, UnresolvedReference) or owner.name != self.window.alias:
            raise ValidationError("Window properties can only be used on windowed tables.")
        return self.window, node.function


class OperationTreeBuilder:
    """Thread: that of the program.

    All methods raise ValidationError, in the words of Flink, for names and types that do not fit.
    """

    def __init__(self, context: PlannerContext) -> None:
        self._queries = QueryBinder(context)

    # -- projections -------------------------------------------------------------------------------------------------

    def project(self, nodes: Nodes, plan: rel.RelNode, windows: Sequence[OverWindowCall] = ()) -> rel.RelNode:
        """Returns the values of expressions. With aggregates among them it is an aggregation of all rows.

        Args:
            windows: the OVER windows that the expressions may use.
        """
        with _program_errors():
            nodes = expanded(nodes, plan.names)
            nodes = flattened(nodes, lambda node: self._bind(node, plan))
            if windows:
                if any(_is_call(part, *WINDOW_PROPERTIES) for node in nodes for part in _parts(node)):
                    raise ValidationError("Window start and end properties are not available for Over windows.")
                named = tuple(each.syntax() for each in windows)
                syntax = [syntax_of(_without_alias(node)) for node in nodes]
                return self._select(plan, nodes, syntax, windows=named)
            return self._grouped(nodes, Grouping(), plan)

    def add_columns(self, nodes: Nodes, plan: rel.RelNode, *, replace_existing: bool) -> rel.RelNode:
        """Returns the columns and further ones behind them, or in the place of those with the same name."""
        with _program_errors():
            nodes = expanded(nodes, plan.names)
            if _has_aggregates(self._queries, nodes):
                raise ValidationError("The added field expression cannot be an aggregation, find: " + str(nodes[0]))
            columns: list[ExpressionNode] = [UnresolvedReference(name) for name in plan.names]
            if not replace_existing:
                return self.project([*columns, *nodes], plan)
            places = {name: place for place, name in enumerate(plan.names)}
            for node in nodes:
                name = _value(node.arguments[1]) if _is_call(node, "as") else _plain_name(node)
                if name is None or name not in places:
                    places.setdefault(name or f"_c{len(columns)}", len(columns))
                    columns.append(node)
                else:
                    columns[places[name]] = node
            return self.project(columns, plan)

    def rename_columns(self, nodes: Nodes, plan: rel.RelNode) -> rel.RelNode:
        """Returns the plan with some columns renamed by aliases."""
        with _program_errors():
            names = list(plan.names)
            for node in expanded(nodes, plan.names):
                if not _is_call(node, "as") or not isinstance(node.arguments[0], UnresolvedReference):
                    raise ValidationError(
                        f"Unexpected field expression type [{node}]. Renaming must add an alias to the original field, "
                        "e.g., a as a1."
                    )
                names[_place(node.arguments[0].name, plan.names, "Rename")] = _value(node.arguments[1])
            return _renamed(plan, names)

    def drop_columns(self, nodes: Nodes, plan: rel.RelNode) -> rel.RelNode:
        """Returns the plan without some columns."""
        with _program_errors():
            dropped = set()
            for node in expanded(nodes, plan.names):
                if not isinstance(node, UnresolvedReference):
                    raise ValidationError(f"Unexpected field expression type [{node}].")
                dropped.add(_place(node.name, plan.names, "Drop"))
            kept = [place for place in range(plan.width) if place not in dropped]
            references = plan.references()
            return rel.Project(plan, tuple(references[each] for each in kept), tuple(plan.names[each] for each in kept))

    def alias(self, names: Sequence[str], plan: rel.RelNode) -> rel.RelNode:
        """Returns the plan with other names for its first columns."""
        if len(names) > plan.width:
            raise ValidationError(
                "Aliasing more fields than we actually have: "
                f"{len(names)} names are given for the columns [{', '.join(plan.names)}]."
            )
        if "*" in names:
            raise ValidationError("Alias can not accept '*' as name.")
        return _renamed(plan, [*names, *plan.names[len(names) :]])

    def filter(self, node: ExpressionNode, plan: rel.RelNode) -> rel.RelNode:
        """Returns the rows for which a condition is true."""
        with _program_errors():
            return rel.Filter(plan, self._binder(plan, "Filter").condition(_single(node, plan)))

    # -- aggregations ------------------------------------------------------------------------------------------------

    def aggregate(self, nodes: Nodes, grouping: Grouping, plan: rel.RelNode) -> rel.RelNode:
        """Returns the values of expressions over groups."""
        with _program_errors():
            return self._grouped(expanded(nodes, plan.names), grouping, plan)

    def aggregate_rows(self, node: ExpressionNode, grouping: Grouping, plan: rel.RelNode) -> rel.RelNode:
        """Returns the keys of groups and the columns of the row that an aggregate function returns for each.

        The start, end and time attributes of a window follow, named by `window_property_name`.
        """
        with _program_errors():
            call, names = _with_aliases(_expanded_call(node, plan))
            if not _has_aggregates(self._queries, [call]):
                raise ValidationError(f"Aggregate function expected. Got: {call}")
            keys = self._key_items(grouping)
            properties = self._property_items(grouping, plan)
            items = [*keys, UnresolvedCall("as", (call, ValueLiteral(_RESULT))), *properties]
            result = self._grouped(items, grouping, plan)
            return self._with_fields(result, len(keys), names, call)

    def aggregate_table(self, node: ExpressionNode, grouping: Grouping, plan: rel.RelNode) -> rel.RelNode:
        """Returns the keys of groups and the rows that a table aggregate function emits for each.

        The start, end and time attributes of a window follow, named by `window_property_name`.
        """
        with _program_errors():
            call, names = _with_aliases(_expanded_call(node, plan))
            function = self._table_aggregate(call)
            keys = self._key_items(grouping)
            collected = UnresolvedCall("as", (function, ValueLiteral(_RESULT)))
            grouped = self._grouped([*keys, collected, *self._property_items(grouping, plan)], grouping, plan)
            place = len(keys)
            kind = grouped.type_of(place)
            assert isinstance(kind, lt.ArrayType)
            assert isinstance(kind.element, lt.RowType)
            rows = kind.element
            rows = rel.row_of(self._row_names(names, rows, call), tuple(each.type for each in rows.fields))
            columns = (*grouped.names[:place], *rows.names, *grouped.names[place + 1 :])
            if grouping.window is None:
                return rel.Project(*_table_aggregate(grouped, rows), _unique(columns))
            # A window sends its result once, so that its rows can be taken out of an array.
            value = grouped.references()[place]
            unnested = rel.Correlate(grouped, RexCall(rows, UNNEST, (value,)), rows, JoinType.INNER)
            made = unnested.references()
            fields = made[grouped.width :]
            return rel.Project(unnested, (*made[:place], *fields, *made[place + 1 : grouped.width]), _unique(columns))

    def _table_aggregate(self, call: ExpressionNode) -> UnresolvedCall:
        """Returns a call of a table aggregate function as one of an aggregate function of the same rows."""
        syntax = syntax_of(call)
        user = self._queries.functions.user(syntax.name) if isinstance(syntax, ast.FunctionCall) else None
        if not isinstance(syntax, ast.FunctionCall) or user is None or user.kind != "TABLE_AGGREGATE":
            raise ValidationError(
                "A flatAggregate only accepts an expression which defines a table aggregate function that might be "
                f"followed by some alias, not {call}."
            )
        assert isinstance(call, UnresolvedCall)
        return UnresolvedCall(CollectedRows(syntax.name.last, user), call.arguments)

    @staticmethod
    def _row_names(names: tuple[str, ...], row: lt.RowType, function: ExpressionNode) -> tuple[str, ...]:
        """Returns the names of the columns of a function's rows: those of its alias, or its own."""
        if names and len(names) != len(row.fields):
            raise ValidationError(
                "List of column aliases must have same degree as table; the returned table of function "
                f"'{function}' has {len(row.fields)} columns, whereas alias list has {len(names)} columns"
            )
        return names or row.names

    def project_aggregated(self, nodes: Nodes, grouping: Grouping, plan: rel.RelNode) -> rel.RelNode:
        """Returns the values of expressions over what `aggregate_rows` returned."""
        with _program_errors():
            visible = [name for name in plan.names if not name.startswith(window_property_name(""))]
            nodes = expanded(nodes, visible)
            if _has_aggregates(self._queries, [grouping.on_properties(each) for each in nodes]):
                raise ValidationError(
                    "Aggregate functions are not supported in the select right after the aggregate or flatAggregate "
                    "operation."
                )
            named = grouping.with_property_names(nodes)
            return self._select(
                plan, named, [syntax_of(grouping.on_properties(_without_alias(node))) for node in named]
            )

    def distinct(self, plan: rel.RelNode) -> rel.RelNode:
        """Returns each row once."""
        with _program_errors():
            return self._bind_query(ast.Select((ast.SelectItem(ast.Star()),), BoundTable(plan), quantifier="DISTINCT"))

    def _grouped(self, nodes: Nodes, grouping: Grouping, plan: rel.RelNode) -> rel.RelNode:
        syntax = [syntax_of(grouping.resolved(_without_alias(node))) for node in nodes]
        group_by = None
        if grouping.window is not None or grouping.keys:
            elements = [syntax_of(each) for each in grouping.plain_keys()]
            if grouping.window is not None:
                elements.insert(0, syntax_of(grouping.window.call()))
            group_by = ast.GroupBy(tuple(elements))
        return self._select(plan, nodes, syntax, group_by=group_by)

    def _key_items(self, grouping: Grouping) -> list[ExpressionNode]:
        """Returns the keys with names: temporary ones for those that are neither columns nor have an alias."""
        count = 0
        items: list[ExpressionNode] = []
        for key in grouping.keys:
            if isinstance(key, UnresolvedReference) or _is_call(key, "as"):
                items.append(key)
            else:
                items.append(UnresolvedCall("as", (key, ValueLiteral(f"TMP_{count}"))))
                count += 1
        return items

    def _property_items(self, grouping: Grouping, plan: rel.RelNode) -> list[ExpressionNode]:
        window = grouping.window
        if window is None:
            return []
        time = self._bind(window.time, plan)
        names = [name for name in WINDOW_PROPERTIES if name != "rowtime" or not lt.is_proctime(time.type)]
        owner = UnresolvedReference(window.alias)
        return [
            UnresolvedCall("as", (UnresolvedCall(name, (owner,)), ValueLiteral(window_property_name(name))))
            for name in names
        ]

    def _with_fields(
        self, plan: rel.RelNode, place: int, names: tuple[str, ...], function: ExpressionNode
    ) -> rel.RelNode:
        """Returns the plan with the fields of the row at a place as columns."""
        references = plan.references()
        kind = plan.type_of(place)
        fields = _fields_of(references[place])
        row = kind if isinstance(kind, lt.RowType) else lt.RowType.of(("f0", kind))
        found = self._row_names(names, row, function)
        return rel.Project(
            plan,
            (*references[:place], *fields, *references[place + 1 :]),
            _unique((*plan.names[:place], *found, *plan.names[place + 1 :])),
        )

    # -- functions of rows -------------------------------------------------------------------------------------------

    def map(self, node: ExpressionNode, plan: rel.RelNode) -> rel.RelNode:
        """Returns the columns of the row that a scalar function returns for each row."""
        with _program_errors():
            call, names = _with_aliases(node)
            value = self._bind(call, plan)
            if not isinstance(value, UserFunctionCall):
                raise ValidationError("Only a scalar function can be used in the map operator.")
            return self._with_fields(rel.Project(plan, (value,), (_RESULT,)), 0, names, call)

    def flat_map(self, node: ExpressionNode, plan: rel.RelNode) -> rel.RelNode:
        """Returns the rows that a table function returns for each row."""
        with _program_errors():
            joined = self._lateral(node, plan, "INNER", None)
            columns = joined.row_type.fields[plan.width :]
            assert isinstance(joined, rel.Correlate)
            names = joined.function_type.names
            return rel.Project(
                joined, tuple(InputRef(each.type, plan.width + at) for at, each in enumerate(columns)), names
            )

    def join_lateral(
        self, node: ExpressionNode, plan: rel.RelNode, kind: str, condition: ExpressionNode | None
    ) -> rel.RelNode:
        """Returns each row with the rows that a table function returns for it.

        Args:
            kind: INNER or LEFT.
        """
        with _program_errors():
            joined = self._lateral(node, plan, kind, condition)
            assert isinstance(joined, rel.Correlate)
            _check_ambiguity(plan.names, joined.function_type.names)
            return joined

    def _lateral(
        self, node: ExpressionNode, plan: rel.RelNode, kind: str, condition: ExpressionNode | None
    ) -> rel.RelNode:
        call, names = _with_aliases(_expanded_call(node, plan))
        syntax = syntax_of(call)
        if not isinstance(syntax, ast.FunctionCall):
            raise ValidationError(
                "A lateral join only accepts an expression which defines a table function call that might be "
                f"followed by some alias, not {call}."
            )
        function: ast.TableReference = ast.TableFunction(syntax)
        if names:
            function = ast.AliasedTable(
                function, ast.Identifier.of("f"), tuple(ColumnReference.named(name) for name in names)
            )
        on = None if condition is None else syntax_of(condition)
        joined, _ = TableReferenceBinder(self._queries, None).bind(ast.Join(kind, BoundTable(plan), function, on))
        return joined

    def process(self, name: str, nodes: Nodes, plan: rel.RelNode) -> rel.RelNode:
        """Returns the rows of a built-in process table function, whose first argument is the table."""
        with _program_errors():
            table = ast.NamedArgument(ast.Identifier.of("input"), ast.TableArgument(BoundQuery(plan)))
            call = ast.FunctionCall(ast.Identifier.of(name), (table, *map(syntax_of, nodes)))
            return bind_process_table_function(self._queries, None, call)

    # -- several tables ----------------------------------------------------------------------------------------------

    def join(self, left: rel.RelNode, right: rel.RelNode, kind: str, condition: ExpressionNode | None) -> rel.RelNode:
        """Returns the join of two tables.

        Args:
            kind: INNER, LEFT, RIGHT or FULL.
        """
        with _program_errors():
            _check_ambiguity(left.names, right.names)
            on = None if condition is None else syntax_of(condition)
            node = ast.Join(kind, BoundTable(left), BoundTable(right), on)
            joined, _ = TableReferenceBinder(self._queries, None).bind(node)
            return joined

    def set_operation(self, kind: str, left: rel.RelNode, right: rel.RelNode, *, is_all: bool) -> rel.RelNode:
        """Returns the UNION, INTERSECT or EXCEPT of two tables."""
        shown = "minus" if kind == "EXCEPT" else kind.lower()
        if left.width != right.width:
            raise ValidationError(
                f"The {shown} operation on two tables of different column sizes: {left.width} and {right.width} is "
                "not supported"
            )
        with _program_errors():
            return self._bind_query(ast.SetOperation(kind, is_all, BoundQuery(left), BoundQuery(right)))

    # -- order -------------------------------------------------------------------------------------------------------

    def sort(self, nodes: Nodes, plan: rel.RelNode) -> rel.RelNode:
        """Returns the rows in an order, ascending by default."""
        with _program_errors():
            items = tuple(ast.OrderItem(*_ordered(node)) for node in expanded(nodes, plan.names))
            return self._bind_query(ast.OrderedQuery(BoundQuery(plan), items))

    def limit(self, plan: rel.RelNode, *, offset: int | None = None, fetch: int | None = None) -> rel.RelNode:
        """Returns the rows from an offset on, or a number of them. One of the two is given."""
        if (offset if offset is not None else fetch or 0) < 0:
            raise ValidationError("Offset should be greater or equal 0" if fetch is None else "Fetch should be >= 0")
        sort = plan if isinstance(plan, rel.Sort) and plan.limit is None else rel.Sort(plan, ())
        if offset is None:
            return replace(sort, limit=fetch)
        if sort.offset:
            raise ValidationError("OFFSET is already defined.")
        return replace(sort, offset=offset)

    # -- binding -----------------------------------------------------------------------------------------------------

    def _bind_query(self, query: ast.Query) -> rel.RelNode:
        return self._queries.bind(query)

    def _bind(self, node: ExpressionNode, plan: rel.RelNode) -> RexNode:
        return self._binder(plan).bind(_single(node, plan))

    def _binder(self, plan: rel.RelNode, clause: str = "") -> ExpressionBinder:
        scope = self._queries.scope([Relation((), plan.names, 0, plan.row_type)], None)
        return ExpressionBinder(self._queries, scope, clause=clause)

    def _select(
        self,
        plan: rel.RelNode,
        nodes: Nodes,
        syntax: Sequence[ast.Expression],
        group_by: ast.GroupBy | None = None,
        windows: tuple[ast.NamedWindow, ...] = (),
    ) -> rel.RelNode:
        """Returns SELECT of expressions. `syntax` holds what the nodes stand for, without aliases."""
        names = _column_names(self._queries, nodes, syntax, is_grouped=group_by is not None)
        items = tuple(
            ast.SelectItem(each, ColumnReference.named(name)) for each, name in zip(syntax, names, strict=True)
        )
        return self._bind_query(ast.Select(items, BoundTable(plan), group_by=group_by, windows=windows))


def window_property_name(name: str) -> str:
    """Returns the name of the column that holds a property of a window for a later projection."""
    return f"w${name}"


#: The name of a column that holds a row before its fields become columns.
_RESULT = "$result"


@contextmanager
def _program_errors() -> Iterator[None]:
    """Takes from errors the words about the text of a statement, which a program does not have."""
    try:
        yield
    except ValidationError as error:
        error.message = error.message.removeprefix("SQL validation failed. ")
        error.args = (error.message,)
        raise


# -- names -----------------------------------------------------------------------------------------------------------


def _column_names(
    queries: QueryBinder, nodes: Nodes, syntax: Sequence[ast.Expression], *, is_grouped: bool
) -> list[str]:
    """Returns the names of the columns of a projection.

    Raises: ValidationError if two columns have one name.
    """
    numbers: dict[ast.Node, int] = {}
    for each in syntax:
        for part in walk(each):
            if _is_aggregate(queries, part) or (is_grouped and _is_property(part)):
                numbers.setdefault(part, len(numbers))
    names: list[str] = []
    for place, (node, each) in enumerate(zip(nodes, syntax, strict=True)):
        if _is_call(node, "as"):
            if len(node.arguments) > 2:
                raise ValidationError(f"Invalid alias: {node} is one column and has several names.")
            name: str = _value(node.arguments[1])
        elif each in numbers:
            name = f"EXPR${numbers[each]}"
        else:
            name = _plain_name(node) or f"_c{place}"
        if name in names:
            raise ValidationError(f"Ambiguous column name: {name}")
        names.append(name)
    return names


def _plain_name(node: ExpressionNode) -> str | None:
    """Returns the name that follows from an expression: of a column, of a field, or of a cast of one."""
    if isinstance(node, UnresolvedReference):
        return node.name
    if _is_call(node, "get"):
        owner, key = _plain_name(node.arguments[0]), _value(node.arguments[1])
        return None if owner is None else f"{owner}${key}" if isinstance(key, str) else f"{owner}$_{key}"
    if _is_call(node, "cast"):
        owner = _plain_name(node.arguments[0])
        return None if owner is None else f"{owner}-{node.arguments[1]}"
    return None


def _is_aggregate(queries: QueryBinder, node: ast.Node) -> bool:
    return isinstance(node, ast.FunctionCall) and node.over is None and queries.functions.is_aggregate(node.name)


def _is_property(node: ast.Node) -> bool:
    suffixes = tuple(f"_{each}" for each in WINDOW_PROPERTIES.values())
    return isinstance(node, ast.FunctionCall) and node.function.endswith(suffixes)


def _has_aggregates(queries: QueryBinder, nodes: Nodes) -> bool:
    return any(_is_aggregate(queries, part) for node in nodes for part in walk(syntax_of(_without_alias(node))))


def _check_ambiguity(left: Sequence[str], right: Sequence[str]) -> None:
    both = [name for name in left if name in right]
    if both:
        raise ValidationError(f"join relations with ambiguous names: [{', '.join(both)}]")


def _place(name: str, names: Sequence[str], operation: str) -> int:
    if name not in names:
        raise ValidationError(
            f"{operation} field [{name}] does not exist in source table, whose fields are "
            f"[{', '.join(names)}]{did_you_mean(name, names)}"
        )
    return list(names).index(name)


def _renamed(plan: rel.RelNode, names: Sequence[str]) -> rel.RelNode:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValidationError(f"Ambiguous column name: {name}")
        seen.add(name)
    return rel.Project(plan, plan.references(), tuple(names))


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    double = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if double is not None:
        raise ValidationError(f"Ambiguous column name: {double}")
    return names


def _table_aggregate(plan: rel.RelNode, rows: lt.RowType) -> tuple[rel.TableAggregate, tuple[RexNode, ...]]:
    """Returns the table aggregation of a projection of keys and of an aggregate that collects rows.

    Args:
        plan: the projection, whose last column is the aggregate.

    Returns: the node, and the keys and columns of the rows over it.
    """
    assert isinstance(plan, rel.Project)
    aggregate = plan.input
    assert isinstance(aggregate, rel.Aggregate)
    count = len(aggregate.grouping)
    (call,) = aggregate.aggregates
    node = rel.TableAggregate(aggregate.input, aggregate.grouping, call, rows)
    return node, (*plan.expressions[:-1], *node.references()[count:])


def _fields_of(value: RexNode) -> list[RexNode]:
    """Returns the fields of a row; the value itself if it is none."""
    kind = value.type
    if not isinstance(kind, lt.RowType):
        return [value]
    return [
        FieldAccess(each.type.as_nullable(each.type.nullable or kind.nullable), value, place, each.name)
        for place, each in enumerate(kind.fields)
    ]


# -- expressions -----------------------------------------------------------------------------------------------------


def _is_call(node: ExpressionNode, *functions: str) -> TypeGuard[UnresolvedCall]:
    return isinstance(node, UnresolvedCall) and node.function in functions and not node.is_lookup


def _value(node: ExpressionNode) -> Any:
    assert isinstance(node, ValueLiteral)
    return node.value


def _without_alias(node: ExpressionNode) -> ExpressionNode:
    return node.arguments[0] if _is_call(node, "as") else node


def _expanded_call(node: ExpressionNode, plan: rel.RelNode) -> ExpressionNode:
    """Returns an expression with all columns that its arguments select. Raises: ValidationError if it is several."""
    found = expanded([node], plan.names)
    if len(found) != 1:
        raise ValidationError(f"Expected single expression, not {node}.")
    return found[0]


def _single(node: ExpressionNode, plan: rel.RelNode) -> ast.Expression:
    return syntax_of(_expanded_call(node, plan))


def _with_aliases(node: ExpressionNode) -> tuple[ExpressionNode, tuple[str, ...]]:
    """Returns an expression and the names that its alias gives to its columns."""
    if not _is_call(node, "as"):
        return node, ()
    return node.arguments[0], tuple(_value(each) for each in node.arguments[1:])


def _ordered(node: ExpressionNode) -> tuple[ast.Expression, bool]:
    """Returns what to sort by, and whether it is descending."""
    if _is_call(node, "asc", "desc"):
        return syntax_of(node.arguments[0]), node.function == "desc"
    return syntax_of(node), False


def _parts(node: ExpressionNode) -> Iterator[ExpressionNode]:
    yield node
    if isinstance(node, UnresolvedCall):
        for each in node.arguments:
            yield from _parts(each)


def _rewritten(node: ExpressionNode, change: Callable[[ExpressionNode], ExpressionNode | None]) -> ExpressionNode:
    found = change(node)
    if found is not None:
        return found
    if not isinstance(node, UnresolvedCall):
        return node
    return replace(node, arguments=tuple(_rewritten(each, change) for each in node.arguments))
