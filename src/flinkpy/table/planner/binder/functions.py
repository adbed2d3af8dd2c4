"""FunctionResolver: finds the function that a name stands for, and the type of its result."""

from __future__ import annotations

from typing import Any, Protocol, cast

from flinkpy.sql.functions import registry
from flinkpy.sql.functions.definition import FunctionDefinition, FunctionKind, literal_value
from flinkpy.sql.functions.user_aggregates import UserAggregateFunction, UserTableAggregateFunction
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import ASYNC, RexCall, RexNode, UserFunctionCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder.program_nodes import FunctionReference
from flinkpy.table.planner.errors import did_you_mean, invalid
from flinkpy.table.planner.logical.time import as_regular


class UserFunction(Protocol):
    """A user-defined function as the function catalog returns it.

    Attributes:
        kind: SCALAR, AGGREGATE, TABLE or TABLE_AGGREGATE.
        function: the function object.
        mode: "general", "pandas" or "arrow".
        is_deterministic: False if two calls with one value may differ.
    """

    kind: str
    function: Any
    mode: str
    is_deterministic: bool

    def result_type(self, arguments: tuple[lt.LogicalType, ...]) -> lt.LogicalType:
        """Returns the type of the result; of a table function the row."""
        ...


class FunctionCatalog(Protocol):
    """The functions of a session."""

    def user_function(self, name: tuple[str, ...]) -> UserFunction | None:
        """Returns the user-defined function of this name; None if there is none."""
        ...

    def is_builtin(self, name: str) -> bool:
        """True if the name stands for a built-in function, as it does while the module `core` is used."""
        ...

    def builtin_names(self) -> list[str]:
        """Returns the names of the functions that need no catalog, in order."""
        ...


class CollectedRows:
    """A table aggregate function as an aggregate function whose result is the ARRAY of the rows that it emits.

    Args:
        name: the name under which the query calls it.
        function: a UserFunction of the kind TABLE_AGGREGATE.
    """

    kind = "AGGREGATE"

    def __init__(self, name: str, function: UserFunction) -> None:
        self._declared = function
        self.name = name
        self.function = function.function
        self.mode = function.mode
        self.is_deterministic = function.is_deterministic

    def result_type(self, arguments: tuple[lt.LogicalType, ...]) -> lt.LogicalType:
        """Returns the type of the array."""
        return lt.ArrayType(self.row_type(arguments), nullable=False)

    def row_type(self, arguments: tuple[lt.LogicalType, ...]) -> lt.RowType:
        """Returns the type of the rows."""
        found = self._declared.result_type(arguments)
        row = found if isinstance(found, lt.RowType) else lt.RowType.of(("f0", found))
        return lt.RowType(row.fields, nullable=False)


class FunctionResolver:
    """Looks up user-defined functions first, then built-in ones."""

    def __init__(self, catalog: FunctionCatalog | None) -> None:
        self._catalog = catalog

    def call(self, name: str, operands: tuple[RexNode, ...]) -> RexCall:
        """Returns the call of a built-in function. Raises: ValidationError if the arguments do not fit."""
        return registry.call(name, *operands)

    def builtin_names(self) -> list[str]:
        """Returns the names of built-in functions, in order."""
        return registry.function_names() if self._catalog is None else self._catalog.builtin_names()

    def user(self, name: ast.Identifier) -> UserFunction | None:
        """Returns the user-defined function of this name; None if there is none."""
        if isinstance(name, FunctionReference):
            return cast(UserFunction, name.function)
        return None if self._catalog is None else self._catalog.user_function(name.parts)

    def by_name(self, name: str) -> UserFunction | None:
        """Returns the user-defined function of an unqualified name; None if there is none."""
        return None if self._catalog is None else self._catalog.user_function((name,))

    def resolve(self, node: ast.FunctionCall, operands: tuple[RexNode, ...]) -> RexNode:
        """Returns the call of a scalar function. Raises: ValidationError for an unknown name or wrong arguments."""
        user = self.user(node.name)
        if user is not None:
            if user.kind not in ("SCALAR", "ASYNC_SCALAR"):
                raise invalid(node, f"{node.name.last} is a {user.kind.lower()} function and cannot be used here")
            kind = user.result_type(tuple(each.type for each in operands))
            mode = ASYNC if user.kind == "ASYNC_SCALAR" else user.mode
            return UserFunctionCall(kind, node.name.last, user.function, operands, mode, user.is_deterministic)
        found = self._builtin(node.name)
        if found is None or found.kind is not FunctionKind.SCALAR:
            signature = f"{node.name.last}({', '.join(f'<{each.type}>' for each in operands)})"
            hint = did_you_mean(node.name.last, self.builtin_names())
            raise invalid(node, f"No match found for function signature {signature}{hint}")
        return found.call(*operands)

    def is_builtin(self, name: ast.Identifier) -> bool:
        """True if the name stands for a built-in function, and not for one of a user or a module."""
        return self._builtin(name) is not None and self.user(name) is None

    def _builtin(self, name: ast.Identifier) -> FunctionDefinition | None:
        if len(name.parts) != 1 or not (self._catalog is None or self._catalog.is_builtin(name.last)):
            return None
        return registry.find_function(name.last)

    def is_aggregate(self, name: ast.Identifier) -> bool:
        """True for aggregate functions, and for those that need OVER."""
        user = self.user(name)
        if user is not None:
            return user.kind == "AGGREGATE"
        found = self._builtin(name)
        return found is not None and found.kind is FunctionKind.AGGREGATE

    def aggregate_name(self, node: ast.FunctionCall) -> str:
        """Returns the name of the aggregate function, of which the query may use an alias."""
        found = None if self.user(node.name) is not None else self._builtin(node.name)
        return node.function if found is None else found.name

    def user_aggregate(self, name: ast.Identifier, operands: tuple[RexNode, ...]) -> UserAggregateFunction | None:
        """Returns the user's aggregate function with the types of a call; None for a built-in one."""
        user = self.user(name)
        if user is None:
            return None
        types = tuple(as_regular(each.type) for each in operands)
        made = UserTableAggregateFunction if isinstance(user, CollectedRows) else UserAggregateFunction
        return made(name.last, user.function, user.mode, types, user.result_type(types))

    def aggregate_type(
        self, node: ast.FunctionCall, operands: tuple[RexNode, ...], *, is_grouped: bool
    ) -> lt.LogicalType:
        """Returns the type of an aggregate.

        Args:
            is_grouped: False if there may be a group without rows, for which aggregates other than COUNT are null.

        Raises: ValidationError for an unknown function or wrong arguments.
        """
        types = tuple(as_regular(each.type) for each in operands)
        user = self.user(node.name)
        if user is not None:
            return user.result_type(types)
        found = self._builtin(node.name)
        if found is None or found.kind is not FunctionKind.AGGREGATE:
            hint = did_you_mean(node.name.last, self.builtin_names())
            raise invalid(node, f"No match found for function signature {node.name.last}{hint}")
        kind = found.infer_type(types, tuple(literal_value(each) for each in operands))
        if not is_grouped or found.name not in _NULL_ONLY_WITHOUT_VALUES:
            return kind
        return kind.as_nullable(any(each.nullable for each in types))


#: Functions whose result is null only if all values are.
_NULL_ONLY_WITHOUT_VALUES = frozenset({"SUM", "AVG", "MIN", "MAX"})
