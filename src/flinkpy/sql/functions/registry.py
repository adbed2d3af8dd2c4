"""The registry of built-in functions: finds definitions by name and creates calls.

Each family of functions is a module that registers its definitions when it is imported.

Source: org.apache.flink.table.functions.BuiltInFunctionDefinitions, org.apache.flink.table.module.CoreModule.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from flinkpy.common.errors import ValidationError
from flinkpy.sql.functions.definition import FunctionDefinition, FunctionKind, Kernel, Returns, definition
from flinkpy.sql.rex import RexCall, RexNode

_FAMILIES = (
    "arithmetic",
    "comparison",
    "logical",
    "conditional",
    "casts",
    "strings",
    "patterns",
    "temporal",
    "construction",
    "arrays_and_maps",
    "hashing",
    "json_functions",
    "aggregates",
    "bitmaps",
    "bound_functions",
    "process_tables",
    "structured",
)

_DEFINITIONS: dict[str, FunctionDefinition] = {}
_NAMES: dict[str, FunctionDefinition] = {}
_lock = threading.RLock()
_is_loading = False
_are_loaded = False


def find_function(name: str) -> FunctionDefinition | None:
    """Returns the function with this name or alias, in any case; None if there is none."""
    _load()
    return _NAMES.get(name.upper())


def function(name: str) -> FunctionDefinition:
    """Returns the function with this name. Raises: ValidationError if there is none."""
    found = find_function(name)
    if found is None:
        raise ValidationError(f"No match found for function signature {name}", details={"function": name})
    return found


def call(name: str, *arguments: RexNode) -> RexCall:
    """Returns a call of a function, with implicit casts around its arguments.

    Raises:
        ValidationError: if there is no such function, or the arguments do not fit.
    """
    return function(name).call(*arguments)


def functions(kind: FunctionKind | None = None) -> list[FunctionDefinition]:
    """Returns all functions, or those of a kind, sorted by name."""
    _load()
    return sorted((each for each in _DEFINITIONS.values() if kind in (None, each.kind)), key=lambda each: each.name)


def function_names() -> list[str]:
    """Returns the names and aliases of all functions, sorted, as SHOW FUNCTIONS lists them."""
    _load()
    return sorted(name.lower() for name in _NAMES)


def register(added: FunctionDefinition) -> None:
    """Adds a definition. A name that exists already is a programming error."""
    for name in (added.name, *added.aliases):
        assert name == name.upper() and name not in _NAMES, name
        _NAMES[name] = added
    _DEFINITIONS[added.name] = added


def scalar(
    name: str, *signatures: str, returns: Returns, aliases: Sequence[str] = (), **properties: Any
) -> Callable[[Kernel], Kernel]:
    """Decorates the kernel of a scalar function to register it."""

    def decorate(kernel: Kernel) -> Kernel:
        register(
            definition(name, FunctionKind.SCALAR, signatures, returns, kernel, aliases=tuple(aliases), **properties)
        )
        return kernel

    return decorate


def scalar_per_value(
    name: str, *signatures: str, returns: Returns, aliases: Sequence[str] = (), **properties: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a function of Python values to register it as a scalar function.

    It is called once per distinct value of a batch where that pays, and not for nulls.
    """

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        def kernel(call: Any, *operands: Any) -> Any:
            return call.per_value(compute, *operands)

        properties.setdefault("is_costly", True)
        register(
            definition(name, FunctionKind.SCALAR, signatures, returns, kernel, aliases=tuple(aliases), **properties)
        )
        return compute

    return decorate


def _load() -> None:
    """Imports all families once. Other threads, such as those of tasks, wait for it."""
    global _are_loaded, _is_loading
    if _are_loaded:
        return
    with _lock:
        if _are_loaded or _is_loading:
            return
        _is_loading = True
        for family in _FAMILIES:
            import_module(f"flinkpy.sql.functions.{family}")
        _are_loaded = True
