"""PyFlink's `pyflink.common`, and the types that all parts of flinkpy share (ids, states, errors, clock, key groups).

Public names are imported on first use, because every process imports this package and few use all of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flinkpy.common.completable_future import CompletableFuture
    from flinkpy.common.config_options import ConfigOption, ConfigOptions
    from flinkpy.common.configuration import Configuration
    from flinkpy.common.either import Either
    from flinkpy.common.execution_config import ExecutionConfig
    from flinkpy.common.input_dependency_constraint import InputDependencyConstraint
    from flinkpy.common.job_client import JobClient, JobListener
    from flinkpy.common.job_execution_result import JobExecutionResult
    from flinkpy.common.job_id import JobID
    from flinkpy.common.job_status import JobStatus
    from flinkpy.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
    from flinkpy.common.serialization import (
        ByteArraySchema,
        DeserializationSchema,
        Encoder,
        SerializationSchema,
        SimpleStringSchema,
    )
    from flinkpy.common.serializer import TypeSerializer
    from flinkpy.common.time import Duration, Instant, Time
    from flinkpy.common.typeinfo import TypeInformation, Types
    from flinkpy.common.types import Row, RowKind
    from flinkpy.common.watermark_strategy import AssignerWithPeriodicWatermarksWrapper, WatermarkStrategy

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Either",
    "Encoder",
    "ExecutionConfig",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobListener",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]

_MODULES = {
    "completable_future": ("CompletableFuture",),
    "config_options": ("ConfigOption", "ConfigOptions"),
    "configuration": ("Configuration",),
    "either": ("Either",),
    "execution_config": ("ExecutionConfig",),
    "input_dependency_constraint": ("InputDependencyConstraint",),
    "job_client": ("JobClient", "JobListener"),
    "job_execution_result": ("JobExecutionResult",),
    "job_id": ("JobID",),
    "job_status": ("JobStatus",),
    "restart_strategy": ("RestartStrategies", "RestartStrategyConfiguration"),
    "serialization": (
        "ByteArraySchema",
        "DeserializationSchema",
        "Encoder",
        "SerializationSchema",
        "SimpleStringSchema",
    ),
    "serializer": ("TypeSerializer",),
    "time": ("Duration", "Instant", "Time"),
    "typeinfo": ("TypeInformation", "Types"),
    "types": ("Row", "RowKind"),
    "watermark_strategy": ("AssignerWithPeriodicWatermarksWrapper", "WatermarkStrategy"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
