"""QueryRenderer: logical plans as queries of an engine.

Projections and filters are merged into the query of their input, and inner joins into one list of tables, so that the
engine's own optimiser can choose the order of joins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode, walk
from flinkpy.sql.types import families as of
from flinkpy.table.planner.batch.dialect import Dialect, NotInEngine
from flinkpy.table.planner.batch.engine_aggregates import AggregateRenderer, frame_text, order_text, over_text
from flinkpy.table.planner.batch.engine_expressions import ExpressionRenderer
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel

_FUNCTIONS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})


@dataclass(frozen=True)
class _Select:
    """A SELECT that is not closed yet.

    Attributes:
        tables: the items of FROM, which are joined by inner joins.
        columns: the texts of the columns over the aliases of the tables.
        where: the conditions.
        tail: ORDER BY and LIMIT, or GROUP BY.
        is_simple: False if a column is computed. Such a query is closed before others refer to its columns.
    """

    tables: tuple[str, ...]
    columns: tuple[str, ...]
    where: tuple[str, ...] = ()
    tail: str = ""
    is_simple: bool = field(default=True)

    def text(self) -> str:
        names = ", ".join(f"{column} AS c{place}" for place, column in enumerate(self.columns))
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        return f"SELECT {names or '1'} FROM {' CROSS JOIN '.join(self.tables)}{where}{self.tail}"


class QueryRenderer:
    """Renders one region.

    Args:
        inputs: the names of the tables that stand for the nodes below the region, by id of the node.

    Attributes:
        expressions: renders the expressions, and knows the kernels that they call.
    """

    def __init__(self, dialect: Dialect, inputs: Mapping[int, str]) -> None:
        self.expressions = ExpressionRenderer(dialect)
        self._dialect = dialect
        self._inputs = inputs
        self._num_aliases = 0

    def query(self, node: rel.RelNode) -> str:
        """Returns the query whose columns c0, c1, ... are those of the node. Raises: NotInEngine."""
        return self._select(node).text()

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _select(self, node: rel.RelNode) -> _Select:
        name = self._inputs.get(id(node))
        if name is not None:
            return self._table(self._dialect.placeholder(name), node.width)
        if not self._dialect.holds(node.row_type):
            raise NotInEngine("a type that the engine lacks")
        return self._render(node)

    @singledispatchmethod
    def _render(self, node: rel.RelNode) -> _Select:
        raise NotInEngine(type(node).__name__)

    @_render.register
    def _(self, node: rel.Values) -> _Select:
        rows = []
        for row in node.rows:
            texts = [self._dialect.literal(each) for each in row]
            if None in texts:
                raise NotInEngine("a literal")
            rows.append(f"({', '.join(map(str, texts))})")
        if not rows:
            nulls = [f"{self._dialect.literal(Literal(each.type, None))}" for each in node.row_type.fields]
            columns = ", ".join(f"{each} AS c{place}" for place, each in enumerate(nulls))
            return self._closed(f"SELECT {columns} WHERE false", node.width)
        names = ", ".join(f"c{place}" for place in range(node.width))
        alias = self._alias()
        table = f"(VALUES {', '.join(rows)}) AS {alias}({names})"
        return _Select((table,), tuple(f"{alias}.c{place}" for place in range(node.width)))

    @_render.register
    def _(self, node: rel.WatermarkAssigner) -> _Select:
        return self._select(node.input)

    @_render.register
    def _(self, node: rel.Project) -> _Select:
        below = self._select(node.input)
        if not below.is_simple:
            below = self._as_table(below)
        columns = tuple(self.expressions.render(each, below.columns) for each in node.expressions)
        is_simple = all(isinstance(each, (InputRef, Literal)) for each in node.expressions)
        return replace(below, columns=columns, is_simple=is_simple)

    @_render.register
    def _(self, node: rel.Filter) -> _Select:
        below = self._select(node.input)
        if below.tail or not below.is_simple:
            below = self._as_table(below)
        conditions = operators.conjuncts(node.condition)
        where = tuple(self.expressions.condition(each, below.columns) for each in conditions)
        return replace(below, where=(*below.where, *where))

    @_render.register
    def _(self, node: rel.Aggregate) -> _Select:
        if node.grouping_sets is not None:
            raise NotInEngine("GROUPING SETS")
        below = self._columns_of(node.input)
        if any(node.input.type_of(place).root in of.APPROXIMATE_NUMERIC for place in node.grouping):
            raise NotInEngine("groups of approximate numbers")
        aggregates = AggregateRenderer(self.expressions, node.input.row_type, below.columns)
        keys = [below.columns[place] for place in node.grouping]
        columns = (*keys, *(aggregates.render(each) for each in node.aggregates))
        group_by = f" GROUP BY {', '.join(str(place + 1) for place in range(len(keys)))}" if keys else ""
        text = replace(below, columns=columns, tail=group_by).text()
        return self._closed(text, node.width)

    @_render.register
    def _(self, node: rel.Sort) -> _Select:
        below = self._select(node.input)
        if below.tail or not below.is_simple:
            below = self._as_table(below)
        tail = f" ORDER BY {order_text(node.order, below.columns)}" if node.order else ""
        if node.limit is not None:
            tail += f" LIMIT {node.limit}"
        if node.offset:
            tail += f" OFFSET {node.offset}"
        return replace(below, tail=tail)

    @_render.register
    def _(self, node: rel.SetOperation) -> _Select:
        if node.kind != "UNION" or not node.all:
            raise NotInEngine(node.kind)
        parts = [f"({self._select(each).text()})" for each in node.parts]
        return self._closed(" UNION ALL ".join(parts), node.width)

    @_render.register
    def _(self, node: rel.Expand) -> _Select:
        below = self._as_table(self._select(node.input))
        parts = []
        for projection in node.projections:
            columns = tuple(self.expressions.render(each, below.columns) for each in projection)
            parts.append(replace(below, columns=columns).text())
        return self._closed(" UNION ALL ".join(parts), node.width)

    @_render.register
    def _(self, node: rel.OverAggregate) -> _Select:
        below = self._columns_of(node.input)
        columns = list(below.columns)
        for group in node.groups:
            frame = "" if all(each.function in _FUNCTIONS for each in group.aggregates) else frame_text(group)
            over = over_text(group.partition, group.order, frame, below.columns)
            aggregates = AggregateRenderer(self.expressions, node.input.row_type, below.columns, over)
            columns += [aggregates.render(each) for each in group.aggregates]
        return self._closed(replace(below, columns=tuple(columns)).text(), node.width)

    @_render.register
    def _(self, node: rel.Rank) -> _Select:
        if node.function not in _FUNCTIONS:
            raise NotInEngine(node.function)
        below = self._columns_of(node.input)
        over = over_text(node.partition, node.order, "", below.columns)
        ranked = self._closed(
            replace(below, columns=(*below.columns, f"{node.function}(){over}")).text(), node.input.width + 1
        )
        rank = ranked.columns[-1]
        where = [f"{rank} >= {node.start}"] if node.start > 1 else []
        if node.end_column is not None:
            where.append(f"{rank} <= {ranked.columns[node.end_column]}")
        elif node.end is not None:
            where.append(f"{rank} <= {node.end}")
        columns = ranked.columns if node.rank_name is not None else ranked.columns[:-1]
        return replace(ranked, columns=columns, where=tuple(where))

    def _columns_of(self, node: rel.RelNode) -> _Select:
        """Returns a query to which aggregates and window functions can be added."""
        select = self._select(node)
        is_closed = select.is_simple or self._dialect.has_kernels_everywhere
        return select if is_closed and not select.tail else self._as_table(select)

    # -- joins -------------------------------------------------------------------------------------------------------

    @_render.register
    def _(self, node: rel.Join) -> _Select:
        for each in operators.conjuncts(node.condition):
            if _is_equality_of_floats(each):
                # A kernel would compare each pair of rows. The operators have a hash table.
                raise NotInEngine("a join by approximate numbers")
        left, right = self._select(node.left), self._select(node.right)
        left, right = (self._as_table(each) if each.tail or not each.is_simple else each for each in (left, right))
        if node.join_type is JoinType.INNER:
            columns = (*left.columns, *right.columns)
            where = tuple(self.expressions.condition(each, columns) for each in operators.conjuncts(node.condition))
            return _Select((*left.tables, *right.tables), columns, (*left.where, *right.where, *where))
        if node.join_type is JoinType.ANTI:
            found = self._not_in(node, left, right)
            if found is not None:
                return found
        # Conditions on the left rows may be evaluated after a join that keeps or drops them as a whole.
        keeps_left = node.join_type in (JoinType.LEFT, JoinType.SEMI, JoinType.ANTI)
        if not keeps_left and (left.where or len(left.tables) > 1 or not _are_columns(left.columns)):
            left = self._as_table(left)
        if right.where or len(right.tables) > 1 or not _are_columns(right.columns):
            right = self._as_table(right)
        columns = (*left.columns, *right.columns)
        known = len(self.expressions.functions)
        on = [self.expressions.condition(each, columns) for each in operators.conjuncts(node.condition)]
        if len(self.expressions.functions) > known and not self._dialect.has_kernels_everywhere:
            raise NotInEngine("a kernel in the condition of an outer, semi or anti join")
        first = left.tables[0] if len(left.tables) == 1 else f"({' CROSS JOIN '.join(left.tables)})"
        table = f"({first} {self._dialect.joins[node.join_type]} {right.tables[0]} ON {' AND '.join(on) or 'true'})"
        if node.join_type in (JoinType.SEMI, JoinType.ANTI):
            columns = left.columns
        return _Select((table,), columns, left.where)

    def _not_in(self, node: rel.Join, left: _Select, right: _Select) -> _Select | None:
        """Returns the anti join of NOT IN, whose only condition holds for NULLs, too; None for others."""
        values = _not_in_values(node)
        if values is None:
            return None
        columns = (*left.columns, *right.columns)
        outer, inner = (self.expressions.render(each, columns) for each in values)
        query = replace(right, columns=(inner,)).text()
        return replace(left, where=(*left.where, f"({outer}) NOT IN ({query})"))

    # -- building blocks ---------------------------------------------------------------------------------------------

    def _alias(self) -> str:
        self._num_aliases += 1
        return f"t{self._num_aliases}"

    def _table(self, name: str, width: int) -> _Select:
        alias = self._alias()
        return _Select((f"{name} AS {alias}",), tuple(f"{alias}.c{place}" for place in range(width)))

    def _closed(self, text: str, width: int) -> _Select:
        return self._table(f"({text})", width)

    def _as_table(self, select: _Select) -> _Select:
        return self._closed(select.text(), len(select.columns))


def _is_equality_of_floats(node: RexNode) -> bool:
    is_equality = isinstance(node, RexCall) and node.function in ("=", "IS NOT DISTINCT FROM")
    return is_equality and any(each.type.root in of.APPROXIMATE_NUMERIC for each in node.operands)


def _are_columns(columns: Sequence[str]) -> bool:
    """True if no column is computed. A computed column would not be NULL where an outer join has no row."""
    return all(each.rpartition(".")[2].removeprefix("c").isdigit() and "(" not in each for each in columns)


def _not_in_values(node: rel.Join) -> tuple[RexNode, RexNode] | None:
    """Returns the values that NOT IN compares, `left = right OR left IS NULL OR right IS NULL`; None for others."""
    condition = node.condition
    if not isinstance(condition, RexCall) or condition.function != "OR":
        return None
    equal, *tests = condition.arguments
    if not isinstance(equal, RexCall) or equal.function != "=":
        return None
    for each in tests:
        if not isinstance(each, RexCall) or each.function != "IS NULL" or each.arguments[0] not in equal.arguments:
            return None
    if {each for each in equal.arguments if each.type.nullable} - {each.operands[0] for each in tests}:
        return None
    left, right = equal.arguments
    width = node.left.width
    sides = [[each.index < width for each in walk(value) if isinstance(each, InputRef)] for value in (left, right)]
    return (left, right) if sides[0] and sides[1] and all(sides[0]) and not any(sides[1]) else None
