"""FunctionDefinition: what the planner and the evaluator know about a built-in function.

Source: org.apache.flink.table.functions.BuiltInFunctionDefinition, org.apache.flink.table.types.inference.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import TableRuntimeError, ValidationError
from flinkpy.sql.functions.signatures import Signature, parse_signature
from flinkpy.sql.rex import Literal, RexCall, RexNode
from flinkpy.sql.types.casting import supports_avoiding_cast
from flinkpy.sql.types.logical_types import LogicalType, NullType
from flinkpy.sql.types.logical_types import TypeRoot as R

#: An Arrow array, or a scalar that stands for the same value in each row.
Operand = Any
Kernel = Callable[..., Operand]


class FunctionKind(enum.Enum):
    SCALAR = "SCALAR"
    AGGREGATE = "AGGREGATE"
    TABLE = "TABLE"
    PROCESS_TABLE = "PROCESS_TABLE"


class _NotLiteral:
    def __repr__(self) -> str:
        return "NOT_LITERAL"


#: Stands for the value of an argument that is not a literal. None is the value of NULL.
NOT_LITERAL = _NotLiteral()


@dataclass(frozen=True, slots=True)
class Inference:
    """The arguments of a call, from which the type of its result is inferred.

    Attributes:
        name: the function.
        types: the types of the arguments, after implicit casts.
        literals: the values of the arguments, NOT_LITERAL for those that are no literals.
    """

    name: str
    types: tuple[LogicalType, ...]
    literals: tuple[Any, ...]

    @property
    def any_nullable(self) -> bool:
        return any(kind.nullable for kind in self.types)

    def literal(self, index: int, default: Any = None) -> Any:
        """Returns the value of a literal argument; `default` if the argument is absent or no literal."""
        if index >= len(self.literals) or self.literals[index] is NOT_LITERAL:
            return default
        return self.literals[index]


Returns = LogicalType | Callable[[Inference], LogicalType]


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """A built-in function.

    Attributes:
        name: the name in `RexCall.function`, in capitals.
        kind: SCALAR, AGGREGATE or TABLE.
        signatures: the accepted arguments. The first one that fits is taken.
        returns: the type of the result, or a function that infers it. A plain type is nullable if an argument is.
        kernel: computes a scalar function: `kernel(call, *operands)` returns an array or a scalar of the result's type;
            None for aggregate and table functions, and for those whose evaluation is not there yet.
        aliases: other names.
        is_deterministic: False if two calls with equal arguments may differ, such as RAND().
        is_dynamic: True if the value depends on the time of the query, such as CURRENT_DATE.
        null_if_null: True if a null argument makes the result null without a call of the kernel.
        may_fail: True if some arguments make it fail. It is evaluated only for rows whose value is needed.
        is_costly: True if it is worth the effort to evaluate it for fewer rows.
    """

    name: str
    kind: FunctionKind
    signatures: tuple[Signature, ...]
    returns: Returns
    kernel: Kernel | None = None
    aliases: tuple[str, ...] = ()
    is_deterministic: bool = True
    is_dynamic: bool = False
    null_if_null: bool = True
    may_fail: bool = False
    is_costly: bool = False

    def coerced_types(
        self, types: Sequence[LogicalType], literals: Sequence[Any] | None = None
    ) -> tuple[LogicalType, ...]:
        """Returns the types to which the arguments are cast before the call.

        Raises:
            ValidationError: if no signature fits. Lists the signatures.
        """
        values = tuple(literals) if literals is not None else (NOT_LITERAL,) * len(types)
        for signature in self.signatures:
            coerced = signature.coerced(types, values)
            if coerced is not None:
                return coerced
        raise self.invalid_call(types)

    def infer_type(self, types: Sequence[LogicalType], literals: Sequence[Any] | None = None) -> LogicalType:
        """Returns the type of the result.

        Args:
            types: the types of the arguments.
            literals: their values, NOT_LITERAL for arguments that are no literals; None if none is.

        Raises:
            ValidationError: if the arguments do not fit.
        """
        values = tuple(literals) if literals is not None else (NOT_LITERAL,) * len(types)
        return self.result_type(self.coerced_types(types, values), values)

    def result_type(self, coerced: tuple[LogicalType, ...], literals: tuple[Any, ...]) -> LogicalType:
        """Returns the type of the result for arguments that have been cast."""
        inference = Inference(self.name, coerced, literals)
        if isinstance(self.returns, LogicalType):
            return self.returns.as_nullable(inference.any_nullable)
        return self.returns(inference)

    def call(self, *arguments: RexNode) -> RexCall:
        """Returns a call of this scalar or table function, with implicit casts around its arguments.

        Raises:
            ValidationError: if the arguments do not fit.
        """
        types = [argument.type for argument in arguments]
        literals = tuple(literal_value(argument) for argument in arguments)
        coerced = self.coerced_types(types, literals)
        cast = tuple(implicitly_cast(argument, kind) for argument, kind in zip(arguments, coerced))
        return RexCall(self.result_type(coerced, literals), self.name, cast)

    def failed(self, reason: str) -> TableRuntimeError:
        """Returns the error for a value for which the function has no result."""
        return TableRuntimeError(f"{self.name}: {reason}", details={"function": self.name})

    def invalid_call(self, types: Sequence[LogicalType]) -> ValidationError:
        """Returns the error for a call with arguments that do not fit."""
        supported = "\n".join(f"{self.name}({signature})" for signature in self.signatures)
        shown = ", ".join(map(str, types))
        return ValidationError(
            f"Invalid function call: {self.name}({shown}). Supported signatures are:\n{supported}",
            details={"function": self.name},
        )


def literal_value(node: RexNode) -> Any:
    """Returns the value of a literal; NOT_LITERAL for any other expression."""
    return node.value if isinstance(node, Literal) else NOT_LITERAL


def implicitly_cast(node: RexNode, kind: LogicalType) -> RexNode:
    """Returns the expression as a value of `kind`, with a CAST only if the values need one."""
    source = node.type
    if source.root in (R.SYMBOL, R.DESCRIPTOR) or source.as_nullable() == kind.as_nullable():
        return node
    if isinstance(source, NullType):
        return Literal(kind.as_nullable(), None)
    if supports_avoiding_cast(source.as_nullable(), kind.as_nullable()):
        return node
    return RexCall(kind.as_nullable(source.nullable), "CAST", (node,))


def definition(
    name: str,
    kind: FunctionKind,
    signatures: Sequence[str],
    returns: Returns,
    kernel: Kernel | None,
    **properties: Any,
) -> FunctionDefinition:
    """Returns a definition with signatures given as text, see `signatures.parse_signature`."""
    parsed = tuple(parse_signature(each) for each in signatures)
    return FunctionDefinition(name, kind, parsed, returns, kernel, **properties)


__all__ = [
    "NOT_LITERAL",
    "FunctionDefinition",
    "FunctionKind",
    "Inference",
    "Kernel",
    "Operand",
    "Returns",
    "definition",
    "implicitly_cast",
    "literal_value",
]
