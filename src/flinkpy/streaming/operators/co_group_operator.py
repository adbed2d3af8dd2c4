"""CoGroupOperator: a window operator with two inputs. Its function gets the records of both inputs in a window.

It is a WindowOperator over pairs (input index, record). The operator makes the pairs itself, so each input travels over
the network unchanged.

Source: org.apache.flink.streaming.api.datastream.CoGroupedStreams, JoinedStreams. Differs: there is no map and union
before the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.functions.window_functions import WindowFunction
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.key_reader import KeyReader
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.windowing.window_operator import WindowOperator

if TYPE_CHECKING:
    from flinkpy.graph.operator_specs import CoGroupSpec


class CoGroupOperator(WindowOperator):
    """Runs a co_group or join of two keyed streams. Thread: task thread."""

    def __init__(
        self,
        spec: CoGroupSpec,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        super().__init__(spec.window, None, context, output, side)
        self.function = _CoGroupWindowFunction(spec.function, spec.kind)
        self.key_selectors = tuple(spec.key_selectors)
        self.key_type = spec.key_type
        self._input_types = input_types
        #: The key readers of the two inputs. All records of a batch belong to one input.
        self._key_readers = [KeyReader(selector, spec.key_type) for selector in spec.key_selectors]
        self.read_keys = self._read_keys

    def checkpointed_functions(self) -> list[Any]:
        return [self.function.function, *self.key_selectors]

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self.key_selectors[input_index], self.key_type, self._input_types[input_index]

    def _read_keys(self, tagged: list[Any]) -> list[Any]:
        """Returns the keys of (input index, record) pairs, which all have the same input index."""
        return self._key_readers[tagged[0][0]]([value for _, value in tagged]) if tagged else []

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self._input_types[input_index])
        super().process_batch(Batch(list(zip(repeat(input_index), rows)), batch.timestamps))


class _CoGroupWindowFunction(WindowFunction[Any, Any, Any, Any]):
    """Calls the user function with the records of both inputs."""

    def __init__(self, function: Any, kind: str) -> None:
        call = {"CO_GROUP": _co_group, "JOIN": _join, "FLAT_JOIN": _flat_join}.get(kind)
        if call is None:
            raise UnsupportedOperationError(f"unknown join kind {kind!r}")
        self.function = function
        self._call: Callable[[Any, list[Any], list[Any]], Any] = call

    def open(self, runtime_context: Any) -> None:
        self.function.open(runtime_context)

    def close(self) -> None:
        self.function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[tuple[int, Any]]) -> Any:
        sides: tuple[list[Any], list[Any]] = ([], [])
        for index, value in inputs:
            sides[index].append(value)
        return self._call(self.function, *sides)


def _co_group(function: Any, first: list[Any], second: list[Any]) -> Any:
    return function.co_group(first, second)


def _join(function: Any, first: list[Any], second: list[Any]) -> list[Any]:
    join = function.join
    return [join(left, right) for left in first for right in second]


def _flat_join(function: Any, first: list[Any], second: list[Any]) -> list[Any]:
    out: list[Any] = []
    for left in first:
        for right in second:
            results = function.join(left, right)
            if results is not None:
                out.extend(results)
    return out
