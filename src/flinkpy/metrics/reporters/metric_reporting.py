"""MetricReporting: runs the configured reporters of a process.

```
metrics.reporters: prom, files
metrics.reporter.prom.factory.class: prometheus      # or org.apache.flink.metrics.prometheus.PrometheusReporterFactory
metrics.reporter.files.factory.class: jsonlines      # or module.path:Class of a MetricReporter
metrics.reporter.files.interval: 10 s
metrics.reporter.files.path: /var/log/flinkpy/metrics.jsonl
```

Source: org.apache.flink.runtime.metrics.{MetricRegistryImpl,ReporterSetup}.
"""

from __future__ import annotations

import difflib
import functools
import logging
from collections.abc import Iterator, Mapping

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.error_text import USER_ERRORS
from flinkpy.configuration import metric_options, read_option
from flinkpy.configuration.options import duration_option
from flinkpy.metrics.metric_registry import MetricRegistry
from flinkpy.metrics.reporters.factories import create_reporter
from flinkpy.metrics.reporters.metric_reporter import MetricReporter
from flinkpy.metrics.reporters.metric_selection import MetricSelection
from flinkpy.metrics.reporters.reporter_thread import ReporterThread, log_unusable

__all__ = ["MetricReporting"]

logger = logging.getLogger(__name__)


#: Source: org.apache.flink.configuration.MetricOptions.REPORTER_INTERVAL.
_INTERVAL = duration_option("interval", "10 s", "Time between two reports.")
#: Options of every reporter, and prefixes of them.
_COMMON_OPTIONS = ("factory.class", _INTERVAL.key, "filter.includes", "filter.excludes")
_COMMON_PREFIXES = ("scope.",)
#: Maximum time that the end of a process waits for the last reports.
STOP_TIMEOUT_S = 2.0


class MetricReporting:
    """Runs the configured reporters, each on its own thread, from `start` to `close`.

    A reporter that is not configured correctly, or cannot be opened, is logged as an error and left out, as in Flink:
    metrics never prevent a service from starting. The others run.
    """

    def __init__(self, configuration: Configuration, registry: MetricRegistry, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        names = read_option(configuration, metric_options.REPORTERS) or ""
        #: One thread for each reporter whose common options are valid.
        self.threads = list(_threads(names, configuration, registry))

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        """Stops the reporters after a last report. Blocks for at most `STOP_TIMEOUT_S`, also if a reporter hangs."""
        for thread in self.threads:
            thread.stop()
        deadline_ms = self._clock.monotonic_ms() + STOP_TIMEOUT_S * 1000
        for thread in self.threads:
            if thread.ident is not None:
                thread.join(max(deadline_ms - self._clock.monotonic_ms(), 0) / 1000)
                if thread.is_alive():
                    logger.warning(
                        "The %s did not end within %g s, and its last report may be lost", thread.name, STOP_TIMEOUT_S
                    )


def _threads(names: str, configuration: Configuration, registry: MetricRegistry) -> Iterator[ReporterThread]:
    entries = configuration.to_dict()
    for name in dict.fromkeys(filter(None, (name.strip() for name in names.split(",")))):
        prefix = f"metrics.reporter.{name}."
        options = {key.removeprefix(prefix): value for key, value in entries.items() if key.startswith(prefix)}
        try:
            interval_s = max(read_option(options, _INTERVAL), 1) / 1000
            selection = MetricSelection(options, read_option(configuration, metric_options.SCOPE_DELIMITER))
        except USER_ERRORS as error:
            log_unusable(name, error)
            continue
        create = functools.partial(_create, name, options)
        yield ReporterThread(name, create, interval_s, options, selection.reported, registry, configuration)


def _create(name: str, options: Mapping[str, str]) -> MetricReporter:
    reporter = create_reporter(name, options.get("factory.class"))
    _warn_of_unknown_options(name, reporter, options)
    return reporter


def _warn_of_unknown_options(name: str, reporter: MetricReporter, options: Mapping[str, str]) -> None:
    """Logs options that a reporter of flinkpy does not have. Other reporters do not tell their options."""
    if not reporter.OPTIONS:
        return
    known = [*_COMMON_OPTIONS, *(key for option in reporter.OPTIONS for key in option.keys)]
    for key in options:
        if key not in known and not key.startswith(_COMMON_PREFIXES):
            nearest = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean `{nearest[0]}`?" if nearest else ""
            logger.warning("metrics.reporter.%s.%s is no option of this reporter%s", name, key, hint)
