"""Loads modules that have moved under their old names.

A pickle names a class by its module. Savepoints may hold windows, and job graphs hold triggers, functions, sources and
sinks, so the modules in which these classes were written remain importable. Every process that unpickles them imports
`flinkpy` first, and with it this module. New code imports the classes from the modules that
PyFlink has, such as `flinkpy.datastream.functions`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: The old name of each module, and the modules that have its classes now.
MOVED = {
    "flinkpy.connectors.elasticsearch.emitter": ("flinkpy.connectors.elasticsearch.sink",),
    "flinkpy.connectors.kinesis.async_writer": ("flinkpy.connectors.aws.async_writer",),
    "flinkpy.connectors.kinesis.client": ("flinkpy.connectors.aws.client", "flinkpy.connectors.kinesis.requests"),
    "flinkpy.connectors.pulsar.driver": ("flinkpy.connectors.pulsar.client",),
    "flinkpy.connectors.rate_limiter": ("flinkpy.connectors.datagen",),
    "flinkpy.connectors.socket_sink": ("flinkpy.connectors.sockets",),
    "flinkpy.connectors.socket_source": ("flinkpy.connectors.sockets",),
    "flinkpy.connectors.streaming_file_sink": ("flinkpy.connectors.file_sink",),
    "flinkpy.datastream.async_functions": ("flinkpy.functions.async_functions",),
    "flinkpy.datastream.base_functions": ("flinkpy.functions.function",),
    "flinkpy.datastream.internal_window_functions": ("flinkpy.functions.window_functions",),
    "flinkpy.datastream.source_sink_functions": (
        "flinkpy.connectors.source_function",
        "flinkpy.connectors.sink_function",
    ),
    "flinkpy.datastream.state_ttl": ("flinkpy.functions.state",),
    "flinkpy.datastream.window.assigner": ("flinkpy.functions.window_assigners",),
    "flinkpy.datastream.window.count_windows": ("flinkpy.functions.window_assigners",),
    "flinkpy.datastream.window.evictors": ("flinkpy.functions.window_evictors",),
    "flinkpy.datastream.window.other_triggers": ("flinkpy.functions.window_triggers",),
    "flinkpy.datastream.window.session_windows": ("flinkpy.functions.window_assigners",),
    "flinkpy.datastream.window.stagger": ("flinkpy.functions.window_assigners",),
    "flinkpy.datastream.window.time_triggers": ("flinkpy.functions.window_triggers",),
    "flinkpy.datastream.window.time_windows": ("flinkpy.functions.window_assigners",),
    "flinkpy.datastream.window.trigger": ("flinkpy.functions.window_triggers",),
    "flinkpy.datastream.window.windows": ("flinkpy.functions.windows",),
    "flinkpy.datastream.window_functions": ("flinkpy.functions.window_functions",),
}


class _MovedModules(MetaPathFinder, Loader):
    """Finds the modules of MOVED. A module has the names of all modules that replace it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        for name in MOVED[module.__name__]:
            for key, value in vars(import_module(name)).items():
                vars(module).setdefault(key, value)


def install() -> None:
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())
