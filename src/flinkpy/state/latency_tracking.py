"""Measures how long accesses to keyed state take: `state.latency-track.*`, off by default.

A tracked state gets a class of its own, whose methods time one access in `sample-interval`. Without tracking nothing is
added to a state. Built-in operators that read a state in bulk, e.g. `reduce` over a batch, do not use these methods.

Source: org.apache.flink.runtime.state.metrics.{LatencyTrackingStateFactory,StateLatencyMetricBase}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.clock import Clock
from flinkpy.configuration import read_option
from flinkpy.configuration import state_backend_options as keys
from flinkpy.metrics.metricbase import Histogram
from flinkpy.state.meta_info import AGGREGATING, LIST, MAP, REDUCING, VALUE

if TYPE_CHECKING:
    from flinkpy.metrics.metric_registry import NamedMetricGroup

#: The methods of each kind of state, and the part of Flink's name for them. The names begin with the kind.
_METHODS: Mapping[str, Mapping[str, str]] = {
    VALUE: {"value": "valueStateGet", "update": "valueStateUpdate"},
    LIST: {
        "get": "listStateGet",
        "add": "listStateAdd",
        "add_all": "listStateAddAll",
        "update": "listStateUpdate",
    },
    MAP: {
        "get": "mapStateGet",
        "put": "mapStatePut",
        "put_all": "mapStatePutAll",
        "remove": "mapStateRemove",
        "contains": "mapStateContains",
        "is_empty": "mapStateIsEmpty",
        "items": "mapStateEntriesInit",
        "keys": "mapStateKeysInit",
        "values": "mapStateValuesInit",
    },
    REDUCING: {"get": "reducingStateGet", "add": "reducingStateAdd"},
    AGGREGATING: {"get": "aggregatingStateGet", "add": "aggregatingStateAdd"},
}
#: The name of the variable of the state's name, as of Flink's StateLatencyMetricBase.
_STATE_NAME = "state_name"


@dataclass(frozen=True, slots=True)
class LatencyTracking:
    """The settings of `state.latency-track.*` and the group of the metrics."""

    metrics: NamedMetricGroup
    clock: Clock
    sample_interval: int
    history_size: int
    has_name_as_variable: bool

    @classmethod
    def of(cls, configuration: Any, metrics: NamedMetricGroup | None, clock: Clock) -> LatencyTracking | None:
        """Returns None if states are not tracked."""
        if metrics is None or not read_option(configuration, keys.LATENCY_TRACK_ENABLED):
            return None
        return cls(
            metrics,
            clock,
            read_option(configuration, keys.LATENCY_TRACK_SAMPLE_INTERVAL),
            read_option(configuration, keys.LATENCY_TRACK_HISTORY_SIZE),
            read_option(configuration, keys.LATENCY_TRACK_STATE_NAME_AS_VARIABLE),
        )

    def track(self, kind: str, name: str, state: Any) -> Any:
        """Makes the state measure its accesses, and returns it."""
        group = self.metrics
        group = group.add_group(_STATE_NAME, name) if self.has_name_as_variable else group.add_group(name)
        methods = {**_METHODS[kind], "clear": "stateClear"}
        timed = {
            method: self._timed(getattr(type(state), method), group.histogram(f"{metric}Latency", self._histogram()))
            for method, metric in methods.items()
            if hasattr(type(state), method)
        }
        # The same layout as that of the present class, so that the object can change its class.
        tracked = type(f"Tracked{type(state).__name__}", (type(state),), {"__slots__": (), **timed})
        state.__class__ = tracked
        return state

    def _histogram(self) -> Histogram:
        return Histogram(self.history_size)

    def _timed(self, method: Callable[..., Any], latencies: Histogram) -> Callable[..., Any]:
        interval, monotonic_ns = self.sample_interval, self.clock.monotonic_ns
        left = 1

        def call(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left:
                return method(*arguments)
            left = interval
            began_ns = monotonic_ns()
            result = method(*arguments)
            latencies.update(monotonic_ns() - began_ns)
            return result

        return call
