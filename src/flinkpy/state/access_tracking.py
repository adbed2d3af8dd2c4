"""Measures accesses to keyed state: their duration and the sizes of their keys and values. Both are off by default.

The options are `state.latency-track.*` and `state.size-track.*`. A tracked state gets a class of its own, whose methods
measure one access in `sample-interval`. Without tracking nothing is added to a state. Built-in operators that read a
state in bulk, e.g. `reduce` over a batch, do not use these methods.

Sizes are those of the form in which RocksDB stores a key or a value, on both backends, so they can be compared. The
value of a state with a time-to-live includes its time stamp, and the key of a window's state its namespace.

Source: org.apache.flink.runtime.state.metrics.{MetricsTrackingStateFactory,StateMetricBase,AbstractMetricsTrackState}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.clock import Clock
from flinkpy.configuration import read_option
from flinkpy.configuration import state_backend_options as keys
from flinkpy.metrics.metricbase import Histogram
from flinkpy.state.key_context import KeyContext
from flinkpy.state.meta_info import AGGREGATING, LIST, MAP, REDUCING, VALUE
from flinkpy.state.rocksdb import key_codec, value_codec

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
#: The keys that a map state measures, as in Flink's names.
_MAP_KEYS = ("Get", "Put", "Remove", "Contains", "IsEmpty", "Iterator")


@dataclass(frozen=True, slots=True)
class _Samples:
    """The place of the histograms of one kind of tracking, and the accesses that are measured."""

    metrics: NamedMetricGroup
    interval: int
    history_size: int
    has_name_as_variable: bool

    def group_of(self, state_name: str) -> NamedMetricGroup:
        if self.has_name_as_variable:
            return self.metrics.add_group(_STATE_NAME, state_name)
        return self.metrics.add_group(state_name)

    def histogram(self, group: NamedMetricGroup, name: str) -> Histogram:
        return group.histogram(name, Histogram(self.history_size))


class LatencyTracking:
    """Times accesses to the states of a backend, in ns: `state.latency-track.*`. Thread: task thread."""

    def __init__(self, samples: _Samples, clock: Clock) -> None:
        self._samples = samples
        self._clock = clock

    @classmethod
    def of(cls, configuration: Any, metrics: NamedMetricGroup | None, clock: Clock) -> LatencyTracking | None:
        """Returns None if accesses are not timed."""
        if metrics is None or not read_option(configuration, keys.LATENCY_TRACK_ENABLED):
            return None
        samples = _Samples(
            metrics,
            read_option(configuration, keys.LATENCY_TRACK_SAMPLE_INTERVAL),
            read_option(configuration, keys.LATENCY_TRACK_HISTORY_SIZE),
            read_option(configuration, keys.LATENCY_TRACK_STATE_NAME_AS_VARIABLE),
        )
        return cls(samples, clock)

    def track(self, kind: str, name: str, state: Any) -> Any:
        """Makes the state time its accesses, and returns it."""
        group = self._samples.group_of(name)
        methods = {**_METHODS[kind], "clear": "stateClear"}
        timed = {
            method: self._timed(getattr(type(state), method), self._samples.histogram(group, f"{metric}Latency"))
            for method, metric in methods.items()
            if hasattr(type(state), method)
        }
        return _with_methods(state, timed)

    def _timed(self, method: Callable[..., Any], latencies: Histogram) -> Callable[..., Any]:
        interval, monotonic_ns = self._samples.interval, self._clock.monotonic_ns
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


class SizeTracking:
    """Measures keys and values of accesses to the states of a backend, in bytes: `state.size-track.*`.

    Thread: task thread.
    """

    def __init__(self, samples: _Samples) -> None:
        self._samples = samples

    @classmethod
    def of(cls, configuration: Any, metrics: NamedMetricGroup | None) -> SizeTracking | None:
        """Returns None if sizes are not measured."""
        if metrics is None or not read_option(configuration, keys.SIZE_TRACK_ENABLED):
            return None
        return cls(
            _Samples(
                metrics,
                read_option(configuration, keys.SIZE_TRACK_SAMPLE_INTERVAL),
                read_option(configuration, keys.SIZE_TRACK_HISTORY_SIZE),
                read_option(configuration, keys.SIZE_TRACK_STATE_NAME_AS_VARIABLE),
            )
        )

    def track(
        self, kind: str, name: str, state: Any, context: KeyContext, stamp: Callable[[Any], Any] | None = None
    ) -> Any:
        """Makes the state measure the sizes of its accesses, and returns it.

        Args:
            context: holds the current key of the state.
            stamp: returns the stored form of a value of a state with a time-to-live.
        """
        sizes = _Sizes(self._samples, self._samples.group_of(name), context, stamp)
        own = type(state)
        methods: dict[str, Callable[..., Any]] = {}
        if kind == MAP:
            methods = _measured_map(own, sizes)
        elif kind == LIST:
            methods = {
                method: sizes.measuring(getattr(own, method), metric, *_LIST_VALUES[method])
                for method, metric in _METHODS[LIST].items()
            }
        else:
            # As in Flink, an aggregating state measures keys only: what is added is not what is stored.
            has_values = kind != AGGREGATING
            for method, metric in _METHODS[kind].items():
                given = _first if has_values and method in ("add", "update") else None
                returned = _result if has_values and method in ("get", "value") else None
                methods[method] = sizes.measuring(getattr(own, method), metric, given, returned)
        return _with_methods(state, methods)


#: Returns the values of which a call consists, given its arguments or its result.
_Values = Callable[[Any], Iterable[Any]]


def _first(arguments: Sequence[Any]) -> Iterable[Any]:
    return arguments[:1]


def _elements(arguments: Sequence[Any]) -> Iterable[Any]:
    return arguments[0]  # type: ignore[no-any-return]


def _result(result: Any) -> Iterable[Any]:
    return (result,)


def _list_of(result: Any) -> Iterable[Any]:
    return result  # type: ignore[no-any-return]


#: For each method of a list state: its values among the arguments, and in the result.
_LIST_VALUES: Mapping[str, tuple[_Values | None, _Values | None]] = {
    "get": (None, _list_of),
    "add": (_first, None),
    "add_all": (_elements, None),
    "update": (_elements, None),
}


class _Sizes:
    """The histograms of one state, and how its keys and values are measured."""

    def __init__(
        self, samples: _Samples, group: NamedMetricGroup, context: KeyContext, stamp: Callable[[Any], Any] | None
    ) -> None:
        self.interval = samples.interval
        self._samples = samples
        self._group = group
        self._context = context
        self._stamp = stamp

    def histogram(self, name: str) -> Histogram:
        return self._samples.histogram(self._group, name)

    def of_key(self) -> int | None:
        """Returns the bytes of the current key, with its namespace."""
        return _measure(key_codec.encode, self._context.key)

    def of_entry(self, key: Any) -> int | None:
        """Returns the bytes of the current key together with those of a key of its map."""
        outer, inner = self.of_key(), _measure(key_codec.encode, key)
        return None if outer is None or inner is None else outer + inner

    def of_values(self, values: Iterable[Any]) -> int | None:
        """Returns the bytes of the values. None, which is no value, has none."""
        stamp = self._stamp
        sizes = [
            _measure(value_codec.encode, value if stamp is None else stamp(value))
            for value in values
            if value is not None
        ]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def measuring(
        self, method: Callable[..., Any], metric: str, given: _Values | None, returned: _Values | None
    ) -> Callable[..., Any]:
        """Returns the method of a state whose sampled calls measure the key, and the values given or returned."""
        key_sizes = self.histogram(f"{metric}KeySize")
        value_sizes = self.histogram(f"{metric}ValueSize") if given is not None or returned is not None else None
        interval, left = self.interval, 1

        def call(state: Any, *arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left:
                return method(state, *arguments)
            left = interval
            _update(key_sizes, self.of_key())
            if value_sizes is not None and given is not None:
                if given is _elements:
                    # The elements may come from an iterator, which can be read only once.
                    arguments = (list(arguments[0]),)
                _update(value_sizes, self.of_values(given(arguments)))
            result = method(state, *arguments)
            if value_sizes is not None and returned is not None:
                _update(value_sizes, self.of_values(returned(result)))
            return result

        return call


def _measured_map(own: type, sizes: _Sizes) -> dict[str, Callable[..., Any]]:
    """Returns the measuring methods of a map state. Entries that are iterated over are sampled one by one."""
    key_sizes = {metric: sizes.histogram(f"mapState{metric}KeySize") for metric in _MAP_KEYS}
    value_sizes = {metric: sizes.histogram(f"mapState{metric}ValueSize") for metric in ("Get", "Put", "Iterator")}
    left = dict.fromkeys((*_MAP_KEYS, "PutAll"), 1)

    def is_sampled(metric: str) -> bool:
        left[metric] -= 1
        if left[metric]:
            return False
        left[metric] = sizes.interval
        return True

    def keyed(name: str, metric: str) -> Callable[..., Any]:
        method = getattr(own, name)

        def call(state: Any, key: Any) -> Any:
            if is_sampled(metric):
                _update(key_sizes[metric], sizes.of_entry(key))
            return method(state, key)

        return call

    get_entry, put_entry, put_entries, test_empty = (
        getattr(own, name) for name in ("get", "put", "put_all", "is_empty")
    )

    def get(state: Any, key: Any) -> Any:
        value = get_entry(state, key)
        if is_sampled("Get"):
            _update(key_sizes["Get"], sizes.of_entry(key))
            _update(value_sizes["Get"], sizes.of_values((value,)))
        return value

    def measure_put(key: Any, value: Any) -> None:
        _update(key_sizes["Put"], sizes.of_entry(key))
        _update(value_sizes["Put"], sizes.of_values((value,)))

    def put(state: Any, key: Any, value: Any) -> None:
        if is_sampled("Put"):
            measure_put(key, value)
        put_entry(state, key, value)

    def put_all(state: Any, dict_value: Any) -> None:
        if is_sampled("PutAll"):
            for key, value in dict_value.items():
                measure_put(key, value)
        put_entries(state, dict_value)

    def is_empty(state: Any) -> Any:
        if is_sampled("IsEmpty"):
            _update(key_sizes["IsEmpty"], sizes.of_key())
        return test_empty(state)

    def iterating(name: str, has_key: bool, has_value: bool) -> Callable[..., Any]:
        method = getattr(own, name)

        def call(state: Any) -> Any:
            found = method(state)
            index = left["Iterator"] - 1
            while index < len(found):
                one = found[index]
                if has_key:
                    _update(key_sizes["Iterator"], sizes.of_entry(one[0] if has_value else one))
                if has_value:
                    _update(value_sizes["Iterator"], sizes.of_values((one[1] if has_key else one,)))
                index += sizes.interval
            left["Iterator"] = index - len(found) + 1
            return found

        return call

    return {
        "get": get,
        "put": put,
        "put_all": put_all,
        "remove": keyed("remove", "Remove"),
        "contains": keyed("contains", "Contains"),
        "is_empty": is_empty,
        "items": iterating("items", True, True),
        "keys": iterating("keys", True, False),
        "values": iterating("values", False, True),
    }


def _measure(encode: Callable[[Any], bytes], value: Any) -> int | None:
    """Returns the bytes of a key or value; None if it cannot be serialized.

    A heap backend holds such values until the first snapshot, which reports them. A measurement must not fail before.
    """
    try:
        return len(encode(value))
    except Exception:  # noqa: BLE001 - whatever the object's own pickling raises
        return None


def _update(histogram: Histogram, size: int | None) -> None:
    if size is not None:
        histogram.update(size)


def _with_methods(state: Any, methods: Mapping[str, Callable[..., Any]]) -> Any:
    """Gives the object a class of its own with these methods, and returns it."""
    own = type(state)
    # The same layout as that of the present class, so that the object can change its class.
    state.__class__ = type(f"Tracked{own.__name__.removeprefix('Tracked')}", (own,), {"__slots__": (), **methods})
    return state
