"""ExecutionConfig: settings of a program's execution; a typed view of the environment's Configuration.

Source: pyflink.common.ExecutionConfig. Differs: settings of the JVM (closure cleaner, Kryo, Avro, POJO) are stored and
returned, but have no effect.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.configuration import Configuration
from flinkpy.common.key_groups import check_max_parallelism, check_parallelism

__all__ = ["ExecutionConfig"]

_PARALLELISM = "parallelism.default"
_MAX_PARALLELISM = "pipeline.max-parallelism"
_AUTO_WATERMARK_INTERVAL = "pipeline.auto-watermark-interval"
_LATENCY_INTERVAL = "metrics.latency.interval"
_CANCELLATION_INTERVAL = "task.cancellation.interval"
_CANCELLATION_TIMEOUT = "task.cancellation.timeout"
_CLOSURE_CLEANER = "pipeline.closure-cleaner-level"
_FORCE_KRYO = "pipeline.force-kryo"
_FORCE_AVRO = "pipeline.force-avro"
_GENERIC_TYPES = "pipeline.generic-types"
_AUTO_UIDS = "pipeline.auto-generate-uids"
_OBJECT_REUSE = "pipeline.object-reuse"
_JOB_PARAMETERS = "pipeline.global-job-parameters"
_SNAPSHOT_COMPRESSION = "execution.checkpointing.snapshot-compression"


class ExecutionConfig:
    """A typed view of a configuration. Setters change the configuration; all times are in milliseconds.

    Example:
        env.get_config().set_auto_watermark_interval(50).enable_object_reuse()
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, j_execution_config: Configuration) -> None:
        self._configuration = j_execution_config

    def enable_closure_cleaner(self) -> ExecutionConfig:
        return self._set(_CLOSURE_CLEANER, "RECURSIVE")

    def disable_closure_cleaner(self) -> ExecutionConfig:
        return self._set(_CLOSURE_CLEANER, "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        return self._configuration.get_string(_CLOSURE_CLEANER, "RECURSIVE") != "NONE"

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Sets the interval between two periodic watermarks; 0 disables them."""
        return self._set_ms(_AUTO_WATERMARK_INTERVAL, interval)

    def get_auto_watermark_interval(self) -> int:
        return self._get_ms(_AUTO_WATERMARK_INTERVAL, 200)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Sets the interval between two latency markers of a source; 0 disables them."""
        return self._set_ms(_LATENCY_INTERVAL, interval)

    def get_latency_tracking_interval(self) -> int:
        return self._get_ms(_LATENCY_INTERVAL, 0)

    def get_parallelism(self) -> int:
        return self._configuration.get_integer(_PARALLELISM, 1)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Sets the parallelism of operators without their own; PARALLELISM_DEFAULT resets it."""
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(_PARALLELISM)
            return self
        check_parallelism(parallelism)
        self._configuration.set_integer(_PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Returns the maximum parallelism, or -1 if it is derived from the parallelism."""
        return self._configuration.get_integer(_MAX_PARALLELISM, -1)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        check_max_parallelism(max_parallelism)
        self._configuration.set_integer(_MAX_PARALLELISM, max_parallelism)
        return self

    def get_task_cancellation_interval(self) -> int:
        from flinkpy.configuration.options import read_option
        from flinkpy.configuration.taskmanager_options import TASK_CANCELLATION_INTERVAL

        return read_option(self._configuration, TASK_CANCELLATION_INTERVAL)

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        return self._set_ms(_CANCELLATION_INTERVAL, interval)

    def get_task_cancellation_timeout(self) -> int:
        return self._get_ms(_CANCELLATION_TIMEOUT, 180_000)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Sets the time after which a task that does not stop ends its TaskExecutor; 0 disables this."""
        return self._set_ms(_CANCELLATION_TIMEOUT, timeout)

    def enable_force_kryo(self) -> ExecutionConfig:
        return self._set_flag(_FORCE_KRYO, True)

    def disable_force_kryo(self) -> ExecutionConfig:
        return self._set_flag(_FORCE_KRYO, False)

    def is_force_kryo_enabled(self) -> bool:
        return self._configuration.get_boolean(_FORCE_KRYO, False)

    def enable_generic_types(self) -> ExecutionConfig:
        return self._set_flag(_GENERIC_TYPES, True)

    def disable_generic_types(self) -> ExecutionConfig:
        return self._set_flag(_GENERIC_TYPES, False)

    def has_generic_types_disabled(self) -> bool:
        return not self._configuration.get_boolean(_GENERIC_TYPES, True)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        return self._set_flag(_AUTO_UIDS, True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Requires a `uid` for every operator."""
        return self._set_flag(_AUTO_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        return self._configuration.get_boolean(_AUTO_UIDS, True)

    def enable_force_avro(self) -> ExecutionConfig:
        return self._set_flag(_FORCE_AVRO, True)

    def disable_force_avro(self) -> ExecutionConfig:
        return self._set_flag(_FORCE_AVRO, False)

    def is_force_avro_enabled(self) -> bool:
        return self._configuration.get_boolean(_FORCE_AVRO, False)

    def enable_object_reuse(self) -> ExecutionConfig:
        return self._set_flag(_OBJECT_REUSE, True)

    def disable_object_reuse(self) -> ExecutionConfig:
        return self._set_flag(_OBJECT_REUSE, False)

    def is_object_reuse_enabled(self) -> bool:
        return self._configuration.get_boolean(_OBJECT_REUSE, False)

    def get_global_job_parameters(self) -> dict[str, str]:
        from flinkpy.configuration.options import read_option
        from flinkpy.configuration.pipeline_options import GLOBAL_JOB_PARAMETERS

        parameters: Any = read_option(self._configuration, GLOBAL_JOB_PARAMETERS)
        return dict(parameters or {})

    def set_global_job_parameters(self, global_job_parameters_dict: dict[str, str]) -> ExecutionConfig:
        """Replaces the parameters that every function can read with `RuntimeContext.get_job_parameter`."""
        for key in self._configuration.key_set():
            if key == _JOB_PARAMETERS or key.startswith(f"{_JOB_PARAMETERS}."):
                self._configuration.remove_config(key)
        for name, value in global_job_parameters_dict.items():
            self._configuration.set_string(f"{_JOB_PARAMETERS}.{name}", str(value))
        return self

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        return []

    def get_registered_pojo_types(self) -> list[str]:
        return []

    def is_use_snapshot_compression(self) -> bool:
        return self._configuration.get_boolean(_SNAPSHOT_COMPRESSION, False)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        return self._set_flag(_SNAPSHOT_COMPRESSION, use_snapshot_compression)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)

    def _set(self, key: str, value: str) -> ExecutionConfig:
        self._configuration.set_string(key, value)
        return self

    def _set_flag(self, key: str, value: bool) -> ExecutionConfig:
        self._configuration.set_boolean(key, value)
        return self

    def _set_ms(self, key: str, value_ms: int) -> ExecutionConfig:
        if isinstance(value_ms, bool) or not isinstance(value_ms, int) or value_ms < 0:
            raise ValueError(f"{key} must be a number of milliseconds, 0 or more, not {value_ms!r}")
        return self._set(key, f"{value_ms} ms")

    def _get_ms(self, key: str, default_ms: int) -> int:
        from flinkpy.configuration.values import parse_duration_ms

        text = self._configuration.get_string(key, "")
        return parse_duration_ms(text) if text else default_ms
