"""What operators with two inputs share: which functions take the records of which input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.streaming.operators.stream_operator import OperatorContext

#: (method of input 0, method of input 1) by the `kind` of a spec.
METHODS = {
    "PROCESS": ("process_element1", "process_element2"),
    "MAP": ("map1", "map2"),
    "FLAT_MAP": ("flat_map1", "flat_map2"),
}

#: (value, context) -> results, or None.
Process = Callable[[Any, Any], Any]


def process_methods(function: Any, kind: str, context: OperatorContext) -> tuple[Process, Process]:
    """Of either input, as if the function were a process function.

    Source: pyflink.datastream.data_stream.ConnectedStreams.{map,flat_map}: a result of `map` that is None is dropped.
    """
    methods = METHODS.get(kind)
    if methods is None:
        raise UnsupportedOperationError(f"operator {context.name}: unknown kind {kind!r}")
    first, second = (getattr(function, method) for method in methods)
    if kind == "MAP":
        return _mapping(first), _mapping(second)
    if kind == "FLAT_MAP":
        return _flat_mapping(first), _flat_mapping(second)
    return first, second


def _mapping(call: Callable[[Any], Any]) -> Process:
    def process(value: Any, context: Any) -> Any:
        result = call(value)
        return None if result is None else (result,)

    return process


def _flat_mapping(call: Callable[[Any], Any]) -> Process:
    def process(value: Any, context: Any) -> Any:
        return call(value)

    return process
