"""Conditional functions. CASE, IF, COALESCE and IFNULL are special forms of the evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.records.key_hash import hash_columns
from flinkpy.sql.functions.definition import FunctionDefinition, FunctionKind, Inference
from flinkpy.sql.functions.kernel_call import KernelCall, as_array
from flinkpy.sql.functions.registry import register, scalar, scalar_per_value
from flinkpy.sql.functions.results import BOOLEAN, INT, STRING, common_type, nullable
from flinkpy.sql.functions.signatures import Signature
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.casting import supports_implicit_cast
from flinkpy.sql.types.merging import find_common_type


class _CaseSignature(Signature):
    """condition, value, ..., else: conditions are BOOLEAN, and values get their common type."""

    def coerced(self, types: Sequence[lt.LogicalType], literals: Sequence[Any]) -> tuple[lt.LogicalType, ...] | None:
        if len(types) < 3 or len(types) % 2 == 0:
            return None
        values = [*types[1:-1:2], types[-1]]
        nulls_only = all(isinstance(kind, lt.NullType) for kind in values)
        found = lt.NullType() if nulls_only else find_common_type(values)
        if found is None:
            return None
        coerced: list[lt.LogicalType] = []
        for index, kind in enumerate(types):
            if index % 2 == 0 and index < len(types) - 1:
                if not supports_implicit_cast(kind.as_nullable(), BOOLEAN):
                    return None
                coerced.append(BOOLEAN.as_nullable(kind.nullable))
            else:
                coerced.append(found.as_nullable(kind.nullable))
        return tuple(coerced)

    def __str__(self) -> str:
        return "<BOOLEAN>, <COMMON>, ..., <COMMON>"


def _case_type(call: Inference) -> lt.LogicalType:
    values = (*call.types[1:-1:2], call.types[-1])
    if all(isinstance(kind, lt.NullType) for kind in values):
        return lt.NullType()
    return common_type(values)


def _special(call: KernelCall, *operands: Any) -> Any:
    raise AssertionError(f"{call.name} is evaluated by its own form")


_CASE = FunctionDefinition("CASE", FunctionKind.SCALAR, (_CaseSignature(()),), _case_type, _special, null_if_null=False)
register(_CASE)


class _IfSignature(_CaseSignature):
    def coerced(self, types: Sequence[lt.LogicalType], literals: Sequence[Any]) -> tuple[lt.LogicalType, ...] | None:
        return _CaseSignature.coerced(self, types, literals) if len(types) == 3 else None

    def __str__(self) -> str:
        return "<BOOLEAN>, <COMMON>, <COMMON>"


register(replace(_CASE, name="IF", signatures=(_IfSignature(()),), aliases=("IFTHENELSE",)))


def _coalesce_type(call: Inference) -> lt.LogicalType:
    return common_type(call.types).as_nullable(all(kind.nullable for kind in call.types))


@scalar("COALESCE", "COMMON...", returns=_coalesce_type, null_if_null=False)
def coalesce(call: KernelCall, *values: Any) -> Any:
    return _special(call, *values)


@scalar(
    "IFNULL",
    "COMMON, COMMON",
    returns=lambda call: common_type(call.types).as_nullable(call.types[1].nullable),
    null_if_null=False,
)
def if_null(call: KernelCall, *values: Any) -> Any:
    return _special(call, *values)


@scalar("NULLIF", "COMPARABLE, COMPARABLE", returns=lambda call: call.types[0].as_nullable(), null_if_null=False)
def null_if(call: KernelCall, value: Any, other: Any) -> Any:
    is_equal = pc.fill_null(pc.equal(value, other), False)
    return pc.if_else(is_equal, pa.scalar(None, call.arrow_type), value)


@scalar_per_value("IS_ALPHA", "ANY", returns=BOOLEAN)
def is_alpha(text: Any) -> bool:
    return isinstance(text, str) and text.isalpha()


@scalar_per_value("IS_DIGIT", "ANY", returns=BOOLEAN)
def is_digit(text: Any) -> bool:
    return isinstance(text, str) and text != "" and all(each.isdecimal() for each in text)


@scalar_per_value("IS_DECIMAL", "ANY", returns=BOOLEAN)
def is_decimal(text: Any) -> bool:
    if not isinstance(text, str):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


@scalar("TYPEOF", "ANY", "ANY, BOOLEAN", returns=nullable(STRING), null_if_null=False)
def type_of(call: KernelCall, value: Any, serializable: Any = None) -> Any:
    return pa.scalar(str(call.argument_types[0]))


@scalar("HASH_CODE", "ANY", returns=INT)
def hash_code(call: KernelCall, value: Any) -> Any:
    """The key hash of a value, which splits DISTINCT aggregates. Differs: it is not Java's hash code."""
    return pa.array(hash_columns([as_array(value, call.num_rows)]).view(np.int32))
