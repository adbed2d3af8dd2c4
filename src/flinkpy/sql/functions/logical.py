"""Logical operators of three-valued logic. AND and OR are special forms of the evaluation."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from flinkpy.sql.functions.kernel_call import KernelCall
from flinkpy.sql.functions.registry import scalar
from flinkpy.sql.functions.results import BOOLEAN, exactly

_NOT_NULL = exactly(BOOLEAN.not_null())


@scalar("AND", "BOOLEAN, BOOLEAN...", returns=BOOLEAN, null_if_null=False)
def and_(call: KernelCall, *values: Any) -> Any:
    raise AssertionError("AND is evaluated by its own form")


@scalar("OR", "BOOLEAN, BOOLEAN...", returns=BOOLEAN, null_if_null=False)
def or_(call: KernelCall, *values: Any) -> Any:
    raise AssertionError("OR is evaluated by its own form")


@scalar("NOT", "BOOLEAN", returns=BOOLEAN)
def not_(call: KernelCall, value: Any) -> Any:
    return pc.invert(value)


@scalar("IS TRUE", "BOOLEAN", returns=_NOT_NULL, null_if_null=False)
def is_true(call: KernelCall, value: Any) -> Any:
    return pc.fill_null(value, False)


@scalar("IS NOT TRUE", "BOOLEAN", returns=_NOT_NULL, null_if_null=False)
def is_not_true(call: KernelCall, value: Any) -> Any:
    return pc.invert(pc.fill_null(value, False))


@scalar("IS FALSE", "BOOLEAN", returns=_NOT_NULL, null_if_null=False)
def is_false(call: KernelCall, value: Any) -> Any:
    return pc.invert(pc.fill_null(value, True))


@scalar("IS NOT FALSE", "BOOLEAN", returns=_NOT_NULL, null_if_null=False)
def is_not_false(call: KernelCall, value: Any) -> Any:
    return pc.fill_null(value, True)


@scalar("IS UNKNOWN", "BOOLEAN", returns=_NOT_NULL, null_if_null=False)
def is_unknown(call: KernelCall, value: Any) -> Any:
    return pc.is_null(value)


@scalar("IS NOT UNKNOWN", "BOOLEAN", returns=_NOT_NULL, null_if_null=False)
def is_not_unknown(call: KernelCall, value: Any) -> Any:
    return pc.is_valid(value)
