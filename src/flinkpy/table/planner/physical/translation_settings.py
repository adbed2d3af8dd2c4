"""TranslationSettings: the options of a session that the operators of a plan depend on."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.graph import table_specs as specs


@dataclass(frozen=True, slots=True)
class AsyncScalarSettings:
    """`table.exec.async-scalar.*`. `max_attempts` is 0 without retries."""

    capacity: int = 10
    timeout_ms: int = 180_000
    max_attempts: int = 3
    retry_delay_ms: int = 100


@dataclass(frozen=True, slots=True)
class TranslationSettings:
    """The options of a session that operators depend on.

    Attributes:
        mini_batch: None if `table.exec.mini-batch.enabled` is false.
        state_ttl_ms: `table.exec.state.ttl`.
        idle_timeout_ms: `table.exec.source.idle-timeout`.
        interval_join_min_cleanup_ms: `table.exec.interval-join.min-cleanup-interval`.
        engine_threads: the threads of a part of a batch query that the embedded engine computes.
        is_batch: True in batch mode.
        parallelism: that of operators that do not say another one.
        on_null: `table.exec.sink.not-null-enforcer`.
        on_length: `table.exec.sink.type-length-enforcer`.
        keyed_shuffle: `table.exec.sink.keyed-shuffle`.
    """

    session: specs.SessionSettings
    mini_batch: specs.MiniBatch | None = None
    state_ttl_ms: int = 0
    idle_timeout_ms: int = 0
    interval_join_min_cleanup_ms: int = 0
    engine_threads: int = 1
    is_batch: bool = False
    parallelism: int = 1
    on_null: str = "ERROR"
    on_length: str = "IGNORE"
    keyed_shuffle: str = "AUTO"
    async_scalar: AsyncScalarSettings = AsyncScalarSettings()
