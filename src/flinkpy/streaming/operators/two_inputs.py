"""process_methods: returns the methods of a function of two streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.streaming.operators.stream_operator import OperatorContext

#: The method names for input 0 and input 1, by the `kind` of a spec.
METHODS = {
    "PROCESS": ("process_element1", "process_element2"),
    "MAP": ("map1", "map2"),
    "FLAT_MAP": ("flat_map1", "flat_map2"),
}

#: Takes (value, context), and returns an iterable of results or None.
Process = Callable[[Any, Any], Any]


def process_methods(function: Any, kind: str, context: OperatorContext) -> tuple[Process, Process]:
    """Returns the method for each input, in the form of a process function.

    Source: pyflink.datastream.data_stream.ConnectedStreams.{map,flat_map}. As there, a None result of `map` is dropped.
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
