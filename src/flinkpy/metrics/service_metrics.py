"""ServiceMetrics: the registry of a service's process, its reporters, and the metrics of the process.

Source: org.apache.flink.runtime.metrics.{MetricRegistryImpl,ViewUpdater,groups.ProcessMetricGroup}.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from flinkpy.common.configuration import Configuration
from flinkpy.configuration import metric_options, read_option, trace_options
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, NamedMetricGroup
from flinkpy.metrics.metricbase import UPDATE_INTERVAL_S
from flinkpy.metrics.process_metrics import (
    GarbageCollectionTimes,
    register_process_metrics,
    register_system_resource_metrics,
)
from flinkpy.metrics.reporters import MetricReporting
from flinkpy.metrics.scope_formats import GroupKind, ScopeFormats
from flinkpy.traces.tracer_slot import install_tracer

if TYPE_CHECKING:
    from flinkpy.traces.reporting import Tracer

__all__ = ["ServiceMetrics"]

logger = logging.getLogger(__name__)


class ServiceMetrics:
    """The metrics of one process, from `start` to `close`.

    Args:
        kind: the kind of the process's group.
        variables: the values of the variables of its scope, e.g. `<host>`.
        group: a group within the scope, for processes that share a scope with another one; None: the scope itself.
        memory_limit_bytes: the memory that the process may use; None: that of its container, or of the host.

    Raises:
        ConfigurationError: a reporter is not configured correctly.
    """

    def __init__(
        self,
        configuration: Configuration,
        kind: GroupKind,
        variables: Mapping[str, str],
        *,
        group: str | None = None,
        memory_limit_bytes: int | None = None,
    ) -> None:
        self.registry = MetricRegistry()
        self.formats = ScopeFormats(configuration)
        #: The group of the service's own metrics.
        self.group: NamedMetricGroup = self.formats.group(kind, variables)
        self.registry.register(MetricScope(), self.group)
        process = self.group if group is None else self.group.add_group(group)
        self._collections = GarbageCollectionTimes()
        register_process_metrics(process, self._collections, limit_bytes=memory_limit_bytes)
        if read_option(configuration, metric_options.SYSTEM_RESOURCE):
            interval_ms = read_option(configuration, metric_options.SYSTEM_RESOURCE_PROBING_INTERVAL)
            register_system_resource_metrics(process, interval_ms)
        self._reporting = MetricReporting(configuration, self.registry)
        self._updater = _ViewUpdater(self.registry)
        self._tracer = _configured_tracer(configuration)

    def start(self) -> None:
        """Starts to compute rates and to report. The reporters of spans and events are those of the process."""
        install_tracer(self._tracer)
        if self._tracer is not None:
            self._tracer.start()
        self._collections.install()
        self._updater.start()
        self._reporting.start()

    def close(self) -> None:
        """Reports for the last time. Blocks for at most `metric_reporting.STOP_TIMEOUT_S` per reporter. Idempotent."""
        self._collections.remove()
        self._updater.stop()
        self._reporting.close()
        install_tracer(None)
        if self._tracer is not None:
            self._tracer.close()


def _configured_tracer(configuration: Configuration) -> Tracer | None:
    """Returns the reporters of spans and events, or None if there are none: their modules are then not imported."""
    if not any(read_option(configuration, one) for one in (trace_options.REPORTERS, trace_options.EVENT_REPORTERS)):
        return None
    from flinkpy.traces.reporting import Tracer

    return Tracer(configuration)


class _ViewUpdater(threading.Thread):
    """Updates all rates every `UPDATE_INTERVAL_S` seconds."""

    def __init__(self, registry: MetricRegistry) -> None:
        super().__init__(name="metric rates", daemon=True)
        self._registry = registry
        self._stop_requested = threading.Event()

    def stop(self) -> None:
        self._stop_requested.set()

    def run(self) -> None:
        while not self._stop_requested.wait(UPDATE_INTERVAL_S):
            self._registry.update_meters()
