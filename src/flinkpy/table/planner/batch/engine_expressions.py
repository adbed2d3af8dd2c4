"""ExpressionRenderer: bound expressions as text of an engine.

Only calls whose results are those of flinkpy's kernels to the last digit have an own text; a test compares both. Each
other call becomes a function that the engine calls with columns and that a kernel computes (`EngineFunction`), so that
results, errors and overflows are Flink's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinkpy.functions.table_functions import UserDefinedFunction
from flinkpy.graph.table_specs import EngineFunction
from flinkpy.sql.rex import ASYNC, InputRef, Literal, RexCall, RexNode, UserFunctionCall, input_columns, moved, walk
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.batch.dialect import Dialect, NotInEngine
from flinkpy.table.planner.batch.exactness import definition_of, failing_part, may_fail


class ExpressionRenderer:
    """Renders the expressions of one region.

    Attributes:
        functions: the kernels that the texts call, in the order of their numbers.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.functions: list[EngineFunction] = []
        self._names: dict[tuple[RexNode, tuple[lt.LogicalType, ...]], str] = {}

    def render(self, node: RexNode, columns: Sequence[str]) -> str:
        """Returns the text of an expression, whose type in the engine is that of the node.

        Args:
            node: the expression.
            columns: the texts of the columns that it refers to.

        Raises:
            NotInEngine: it calls a function that the engine cannot call, is not deterministic, or has a type that the
                engine lacks.
        """
        if isinstance(node, InputRef):
            return columns[node.index]
        if isinstance(node, Literal):
            text = self.dialect.literal(node)
            if text is None:
                raise NotInEngine(f"a literal of type {node.type}")
            return text
        if self.dialect.type_name(node.type) is None:
            raise NotInEngine(str(node))
        if isinstance(node, RexCall):
            own = self._own_text(node, columns)
            if own is not None:
                return own
        return (self._kernel_of_operands if self.dialect.computes_lazily else self._kernel_of_columns)(node, columns)

    def condition(self, node: RexNode, columns: Sequence[str]) -> str:
        """Returns the text of a condition of WHERE or ON.

        The engine evaluates the parts of a condition in any order, so no part may be one that fails for some values.

        Raises: NotInEngine.
        """
        failing = failing_part(node)
        if failing is not None:
            raise NotInEngine(f"{failing} may fail, and a condition before it may exclude that")
        return self.render(node, columns)

    def over_values(self, expression: RexNode, types: tuple[lt.LogicalType, ...], arguments: Sequence[str]) -> str:
        """Returns the text of an expression that refers to computed values, which have these types, as columns.

        Raises: NotInEngine.
        """
        own = self._own_text(expression, arguments) if isinstance(expression, RexCall) else None
        return own if own is not None else self._kernel(expression, types, arguments)

    def _own_text(self, node: RexCall, columns: Sequence[str]) -> str | None:
        return self.dialect.call(node, [Operand(self, each, columns) for each in node.arguments])

    # -- kernels -----------------------------------------------------------------------------------------------------

    def _kernel(self, expression: RexNode, types: tuple[lt.LogicalType, ...], arguments: Sequence[str]) -> str:
        """Returns a call of a kernel. `expression` refers to its arguments, which have these types, as columns."""
        type_names = [self.dialect.type_name(each) for each in (*types, expression.type)]
        if None in type_names:
            raise NotInEngine(f"a type of {expression}")
        name = self._names.get((expression, types))
        if name is None:
            name = f"kernel_{len(self.functions)}"
            self._names[expression, types] = name
            *engine_types, result_type = map(str, type_names)
            self.functions.append(EngineFunction(name, expression, types, tuple(engine_types), result_type))
        return f"{self.dialect.placeholder(name)}({', '.join(arguments)})"

    def _kernel_of_operands(self, node: RexNode, columns: Sequence[str]) -> str:
        """Returns a call whose arguments the engine computes."""
        self._check_callable(node)
        arguments: list[str] = []
        operands: list[RexNode] = []
        types: list[lt.LogicalType] = []
        for each in node.operands:
            if isinstance(each, Literal):
                operands.append(each)
                continue
            operands.append(InputRef(each.type, len(arguments)))
            arguments.append(self.render(each, columns))
            types.append(each.type)
        if not arguments:
            raise NotInEngine(f"the constant {node}")
        return self._kernel(node.with_operands(tuple(operands)), tuple(types), arguments)

    def _kernel_of_columns(self, node: RexNode, columns: Sequence[str]) -> str:
        """Returns a call that computes the whole expression, so that no row gets a value that it does not need."""
        for each in walk(node):
            self._check_callable(each)
        places = input_columns([node])
        if not places:
            raise NotInEngine(f"the constant {node}")
        known = {each.index: each.type for each in walk(node) if isinstance(each, InputRef)}
        expression = moved(node, {place: number for number, place in enumerate(places)})
        types = tuple(known[place] for place in places)
        return self._kernel(expression, types, [columns[place] for place in places])

    def _check_callable(self, node: RexNode) -> None:
        """Checks that a kernel can compute a node. Raises: NotInEngine."""
        if isinstance(node, UserFunctionCall):
            if not self.dialect.calls_user_functions or not node.is_deterministic or node.kind == ASYNC:
                raise NotInEngine(node.name)
            if _needs_context(node.function):
                raise NotInEngine(f"{node.name} has `open` or `close`, which an operator calls")
        elif isinstance(node, RexCall):
            definition = definition_of(node)
            if definition.kernel is None or not definition.is_deterministic or definition.is_dynamic:
                raise NotInEngine(node.function)
        elif not isinstance(node, (InputRef, Literal)):
            raise NotInEngine(str(node))


def _needs_context(function: Any) -> bool:
    """True if a function of a user is opened or closed by the operator that calls it."""
    kind = type(function)
    return any(
        getattr(kind, name, None) not in (None, getattr(UserDefinedFunction, name)) for name in ("open", "close")
    )


class Operand:
    """An operand of a call, rendered when it is needed."""

    def __init__(self, renderer: ExpressionRenderer, node: RexNode, columns: Sequence[str]) -> None:
        self._renderer = renderer
        self._columns = columns
        self.node = node
        self.type = node.type

    @property
    def text(self) -> str:
        return self._renderer.render(self.node, self._columns)

    @property
    def may_fail(self) -> bool:
        return may_fail(self.node)

    def of(self, node: RexNode) -> Operand:
        """Returns an operand over the same columns."""
        return Operand(self._renderer, node, self._columns)
