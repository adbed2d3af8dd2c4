"""FunctionResolver: finds the function that a name stands for, and the type of its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from flinkpy.common.errors import ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import RexCall, RexNode, UserFunctionCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types import merging
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


class FunctionResolver:
    """Looks up user-defined functions first, then built-in ones."""

    def __init__(self, catalog: FunctionCatalog | None) -> None:
        self._catalog = catalog

    def call(self, name: str, operands: tuple[RexNode, ...]) -> RexNode:
        """Returns the call of a built-in function. Raises: ValidationError if the arguments do not fit."""
        return RexCall(_scalar_type(name, operands), name, operands)

    def builtin_names(self) -> list[str]:
        """Returns the names of built-in functions, in order."""
        return sorted({*_SCALARS, *_AGGREGATES})

    def user(self, name: ast.Identifier) -> UserFunction | None:
        return None if self._catalog is None else self._catalog.user_function(name.parts)

    def resolve(self, node: ast.FunctionCall, operands: tuple[RexNode, ...]) -> RexNode:
        """Returns the call of a scalar function. Raises: ValidationError for an unknown name or wrong arguments."""
        user = self.user(node.name)
        if user is not None:
            if user.kind != "SCALAR":
                raise invalid(node, f"{node.name.last} is a {user.kind.lower()} function and cannot be used here")
            kind = user.result_type(tuple(each.type for each in operands))
            return UserFunctionCall(kind, node.name.last, user.function, operands, user.mode, user.is_deterministic)
        if len(node.name.parts) > 1 or not _is_scalar(node.function):
            signature = f"{node.name.last}({', '.join(f'<{each.type}>' for each in operands)})"
            hint = did_you_mean(node.function, _scalar_names())
            raise invalid(node, f"No match found for function signature {signature}{hint}")
        return self.call(node.function, operands)

    def is_aggregate(self, name: ast.Identifier) -> bool:
        user = self.user(name)
        if user is not None:
            return user.kind == "AGGREGATE"
        return len(name.parts) == 1 and name.last.upper() in _AGGREGATES

    def user_aggregate(self, name: ast.Identifier) -> Any:
        """Returns the user's aggregate function; None for a built-in one."""
        user = self.user(name)
        return None if user is None else user.function

    def aggregate_type(
        self, node: ast.FunctionCall, name: str, operands: tuple[RexNode, ...], *, is_grouped: bool
    ) -> lt.LogicalType:
        """Returns the type of an aggregate. It may be null for a group of no rows if `is_grouped` is False."""
        user = self.user(node.name)
        if user is not None:
            return user.result_type(tuple(each.type for each in operands))
        infer = _AGGREGATES.get(name)
        if infer is None:
            raise invalid(node, f"No match found for function signature {name}{did_you_mean(name, _AGGREGATES)}")
        kind = infer(tuple(as_regular(each.type) for each in operands))
        return kind if is_grouped or name in _NEVER_NULL else kind.as_nullable()


_NEVER_NULL = frozenset({"COUNT", "ROW_NUMBER", "RANK", "DENSE_RANK"})
_Inference = Callable[[tuple[lt.LogicalType, ...]], lt.LogicalType]
_BIGINT = lt.BigIntType(nullable=False)

_AGGREGATES: dict[str, _Inference] = {
    "COUNT": lambda types: _BIGINT,
    "SUM": lambda types: merging.find_sum_agg_type(types[0]),
    "SUM0": lambda types: merging.find_sum_agg_type(types[0]).not_null(),
    "AVG": lambda types: merging.find_avg_agg_type(types[0]),
    "MIN": lambda types: types[0],
    "MAX": lambda types: types[0],
    "FIRST_VALUE": lambda types: types[0],
    "LAST_VALUE": lambda types: types[0],
    "SINGLE_VALUE": lambda types: types[0].as_nullable(),
    "LISTAGG": lambda types: lt.VarCharType(nullable=types[0].nullable),
    "COLLECT": lambda types: lt.MultisetType(types[0], nullable=False),
    "ARRAY_AGG": lambda types: lt.ArrayType(types[0]),
    "STDDEV_POP": lambda types: types[0],
    "STDDEV_SAMP": lambda types: types[0],
    "VAR_POP": lambda types: types[0],
    "VAR_SAMP": lambda types: types[0],
    "ROW_NUMBER": lambda types: _BIGINT,
    "RANK": lambda types: _BIGINT,
    "DENSE_RANK": lambda types: _BIGINT,
    "PERCENT_RANK": lambda types: lt.DoubleType(nullable=False),
    "CUME_DIST": lambda types: lt.DoubleType(nullable=False),
    "NTILE": lambda types: _BIGINT,
    "LAG": lambda types: types[0].as_nullable(),
    "LEAD": lambda types: types[0].as_nullable(),
}


def _scalar_names() -> list[str]:
    return list(_SCALARS)


def _is_scalar(name: str) -> bool:
    return name in _SCALARS


def _scalar_type(name: str, operands: tuple[RexNode, ...]) -> lt.LogicalType:
    infer = _SCALARS.get(name)
    if infer is None:
        raise ValidationError(f"No match found for function signature {name}{did_you_mean(name, _SCALARS)}")
    kind = infer(tuple(each.type for each in operands))
    return kind.as_nullable(kind.nullable or any(each.type.nullable for each in operands))


_TEXT = lt.VarCharType(nullable=False)
_SCALARS: dict[str, _Inference] = {
    "LOWER": lambda types: types[0],
    "UPPER": lambda types: types[0],
    "DATE_FORMAT": lambda types: _TEXT,
    "REGEXP_EXTRACT": lambda types: lt.VarCharType(),
    "SPLIT_INDEX": lambda types: lt.VarCharType(),
    "EXTRACT": lambda types: _BIGINT,
    "||": lambda types: _TEXT,
    "SUBSTRING": lambda types: _TEXT,
    "CHAR_LENGTH": lambda types: lt.IntType(nullable=False),
    "ABS": lambda types: types[0],
    "HASH_CODE": lambda types: lt.IntType(nullable=False),
}
