"""Tracer: hands the spans and events of a process to the configured reporters.

```
traces.reporters: otel
traces.reporter.otel.factory.class: otel      # or org.apache.flink.traces.otel.OpenTelemetryTraceReporterFactory
traces.reporter.otel.exporter.endpoint: http://collector:4317
events.reporters: log
events.reporter.log.factory.class: log
```

Each reporter has its own daemon thread and a bounded queue, so a reporter that fails or hangs delays nothing else.

Source: org.apache.flink.runtime.metrics.MetricRegistryImpl, filter.ReporterFilter and
org.apache.flink.runtime.metrics.{TraceReporterSetup,EventReporterSetup}.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.error_text import USER_ERRORS, describe
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option, trace_options
from flinkpy.traces.event import Event, EventBuilder
from flinkpy.traces.reporters import EventReporter, TraceReporter
from flinkpy.traces.span import Span, SpanBuilder

__all__ = ["Tracer"]

logger = logging.getLogger(__name__)

#: Spans or events that wait for one reporter. More are dropped, so that a reporter that hangs costs no memory.
MAX_WAITING = 10_000
#: Spans or events in one report.
MAX_BATCH = 512
#: How long a report waits for more spans, so that those of one checkpoint travel together.
BATCH_DELAY_S = 0.2
#: Time between two lines about a reporter that keeps failing.
FAILURE_INTERVAL_MS = 60_000
#: Maximum time that the end of a process waits for the last reports.
STOP_TIMEOUT_S = 2.0

_OTEL = "flinkpy.metrics.reporters.otel_traces"
#: `module:Class` by the short name. A module is imported when its reporter is configured.
TRACE_REPORTERS = {"otel": f"{_OTEL}:OpenTelemetryTraceReporter", "log": "flinkpy.traces.reporters:LogTraceReporter"}
EVENT_REPORTERS = {"otel": f"{_OTEL}:OpenTelemetryEventReporter", "log": "flinkpy.traces.reporters:LogEventReporter"}
#: The short names by the class names in configurations written for Flink.
FLINK_FACTORIES = {
    "org.apache.flink.traces.otel.OpenTelemetryTraceReporterFactory": "otel",
    "org.apache.flink.traces.slf4j.Slf4jTraceReporterFactory": "log",
    "org.apache.flink.events.otel.OpenTelemetryEventReporterFactory": "otel",
    "org.apache.flink.events.slf4j.Slf4jEventReporterFactory": "log",
}

Item = Span | Event


class Tracer:
    """The reporters of one process, from `start` to `close`. Thread: any.

    A reporter that is not configured correctly, or cannot be opened, is logged as an error and left out, as in Flink.
    """

    def __init__(self, configuration: Configuration, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        names = read_option(configuration, trace_options.REPORTERS) or ""
        self._spans = list(_threads("traces", names, configuration, TRACE_REPORTERS, TraceReporter))
        names = read_option(configuration, trace_options.EVENT_REPORTERS) or ""
        self._events = list(_threads("events", names, configuration, EVENT_REPORTERS, EventReporter))

    @property
    def has_spans(self) -> bool:
        return bool(self._spans)

    @property
    def has_events(self) -> bool:
        return bool(self._events)

    def start(self) -> None:
        for thread in (*self._spans, *self._events):
            thread.start()

    def close(self) -> None:
        """Stops the reporters after a last report. Blocks for at most `STOP_TIMEOUT_S`. Idempotent."""
        threads = [*self._spans, *self._events]
        for thread in threads:
            thread.stop()
        deadline_ms = self._clock.monotonic_ms() + STOP_TIMEOUT_S * 1000
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(deadline_ms - self._clock.monotonic_ms(), 0) / 1000)

    def add_span(self, builder: SpanBuilder) -> None:
        """Reports a span that has ended. Never blocks."""
        if self._spans:
            span = builder.build()
            for thread in self._spans:
                thread.put(span)

    def add_event(self, builder: EventBuilder) -> None:
        """Reports an event. Never blocks."""
        if self._events:
            event = builder.build()
            for thread in self._events:
                thread.put(event)


class _ReporterThread(threading.Thread):
    """Opens a reporter and passes items to it until `stop`."""

    def __init__(self, kind: str, name: str, reporter: Any, options: Mapping[str, str], clock: Clock) -> None:
        super().__init__(name=f"{kind} reporter {name}", daemon=True)
        self._reporter = reporter
        self._options = options
        self._clock = clock
        #: None ends the thread.
        self._waiting: queue.Queue[Item | None] = queue.Queue(MAX_WAITING)
        self._stopped = threading.Event()
        self._num_lost = 0
        self._logged_ms: int | None = None

    def put(self, item: Item) -> None:
        if self._stopped.is_set():
            return
        try:
            self._waiting.put_nowait(item)
        except queue.Full:
            self._num_lost += 1

    def stop(self) -> None:
        """Lets the thread end after a last report. Does not wait."""
        self._stopped.set()
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return  # the thread sees `_stopped` after its next report

    def run(self) -> None:
        try:
            self._reporter.open(self._options)
        except USER_ERRORS as error:
            logger.error("The %s cannot be opened, so it reports nothing: %s", self.name, describe(error))
            self._stopped.set()
            return
        while (batch := self._next_batch()) is not None:
            if batch:
                self._report(batch)
        try:
            self._reporter.close()
        except USER_ERRORS as error:
            logger.warning("The %s failed to close: %s", self.name, describe(error))

    def _next_batch(self) -> Sequence[Item] | None:
        """Returns the items that wait, or None at the end. Blocks until there is one."""
        if self._stopped.is_set() and self._waiting.empty():
            return None
        first = self._waiting.get()
        if first is not None:
            self._stopped.wait(BATCH_DELAY_S)
        batch = [] if first is None else [first]
        while len(batch) < MAX_BATCH:
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                break
            if item is not None:
                batch.append(item)
        return batch

    def _report(self, batch: Sequence[Item]) -> None:
        try:
            self._reporter.report(batch)
        except USER_ERRORS as error:
            self._num_lost += len(batch)
            self._log_loss(describe(error))
        else:
            if self._num_lost:
                self._log_loss("more than its queue holds arrived")

    def _log_loss(self, reason: str) -> None:
        """Logs lost items: at once for the first time, then once a minute."""
        now_ms = self._clock.monotonic_ms()
        if self._logged_ms is None or now_ms - self._logged_ms >= FAILURE_INTERVAL_MS:
            logger.warning("The %s has lost %d items: %s", self.name, self._num_lost, reason)
            self._logged_ms, self._num_lost = now_ms, 0


def _threads(
    kind: str, names: str, configuration: Configuration, known: Mapping[str, str], base: type
) -> Iterator[_ReporterThread]:
    entries = configuration.to_dict()
    for name in dict.fromkeys(filter(None, (name.strip() for name in names.split(",")))):
        prefix = f"{kind}.reporter.{name}."
        options = {key.removeprefix(prefix): value for key, value in entries.items() if key.startswith(prefix)}
        try:
            reporter = create_reporter(prefix, options.get("factory.class"), known, base)
        except ConfigurationError as error:
            logger.error("The %s reporter %s is not used, so it reports nothing: %s", kind, name, error)
            continue
        _warn_of_unknown_options(prefix, reporter, options)
        yield _ReporterThread(kind, name, reporter, options, SystemClock())


def create_reporter(prefix: str, factory_class: str | None, known: Mapping[str, str], base: type) -> Any:
    """Returns a new reporter.

    Args:
        prefix: the prefix of its options.
        factory_class: a short name, a class name of Flink's, or `module:Class`.
        known: `module:Class` by the short name.
        base: the interface that the reporter must have.

    Raises: ConfigurationError if there is no such reporter, or its library is missing.
    """
    if not factory_class:
        raise ConfigurationError(f"{prefix}factory.class is not set")
    short_name = FLINK_FACTORIES.get(factory_class, factory_class)
    module, _, class_name = known.get(short_name, factory_class).partition(":")
    try:
        make: Callable[[], Any] = getattr(importlib.import_module(module), class_name)
        reporter = make()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        if short_name == "otel" and isinstance(error, ImportError):
            raise ConfigurationError(
                f"{prefix}factory.class: {factory_class!r} needs a library that cannot be imported ({error}): "
                "pip install 'flinkpy[otel]'"
            ) from error
        raise ConfigurationError(
            f"{prefix}factory.class: {factory_class!r} is neither one of {', '.join(known)} nor a loadable "
            f"module:Class: {error}"
        ) from error
    if not isinstance(reporter, base):
        raise ConfigurationError(f"{prefix}factory.class: {factory_class!r} is not a {base.__name__}")
    return reporter


def _warn_of_unknown_options(prefix: str, reporter: Any, options: Mapping[str, str]) -> None:
    """Logs options that a reporter of flinkpy does not have. Other reporters do not tell their options."""
    if not reporter.OPTIONS:
        return
    known = ["factory.class", *(key for option in reporter.OPTIONS for key in option.keys)]
    for key in options:
        if key not in known:
            nearest = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean `{nearest[0]}`?" if nearest else ""
            logger.warning("%s%s is no option of this reporter%s", prefix, key, hint)
