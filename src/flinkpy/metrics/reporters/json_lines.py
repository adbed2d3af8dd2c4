"""JsonLinesReporter: appends metrics to a file, for programs that read them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option
from flinkpy.configuration.options import string_option
from flinkpy.metrics.reporters.metric_reporter import MetricReporter, ReportedMetric

__all__ = ["JsonLinesReporter"]


PATH = string_option(
    "path", None, "File to append to. `%p` is replaced by the id of the process, so that each process has its own file."
)


class JsonLinesReporter(MetricReporter):
    """Appends one JSON object per line to the file `path`, in which `%p` is replaced by the process id."""

    OPTIONS = (PATH,)

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._path = ""

    def open(self, options: Mapping[str, str]) -> None:
        path = read_option(options, PATH)
        if not path:
            raise ConfigurationError("the jsonlines reporter needs the option `path`, the file that it writes to")
        self._path = path.replace("%p", str(os.getpid()))

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        now_ms = self._clock.now_ms()
        lines = [
            json.dumps(
                {
                    "timestamp_ms": now_ms,
                    "metric": metric.identifier,
                    "kind": metric.reading.kind,
                    "value": metric.reading.value,
                    **metric.reading.statistics,
                    "variables": {name.strip("<>"): value for name, value in metric.variables.items()},
                }
            )
            for metric in metrics
        ]
        if lines:
            # One write, so that processes that share the file do not mix their lines.
            with open(self._path, "a", encoding="utf-8") as file:
                file.write("\n".join([*lines, ""]))
