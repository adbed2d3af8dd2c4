"""OptimizerSettings: the options of a session that rules depend on.

Source: org.apache.flink.table.api.config.OptimizerConfigOptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import ValidationError
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import (
    DELTA_JOIN_STRATEGY,
    DISTINCT_AGG_SPLIT_BUCKET_NUM,
    DISTINCT_AGG_SPLIT_ENABLED,
    MULTI_JOIN_ENABLED,
)
from flinkpy.sql.session_settings import SessionSettings


@dataclass(frozen=True, slots=True)
class OptimizerSettings:
    """The settings.

    Attributes:
        session: the settings that the values of expressions depend on.
        is_streaming: False in batch mode.
        distinct_buckets: the buckets into which aggregates of distinct values are split; None not to split them.
        multi_joins: True to compute chains of joins over one key in one operator.
    """

    session: SessionSettings
    is_streaming: bool = True
    distinct_buckets: int | None = None
    multi_joins: bool = False

    @classmethod
    def of(cls, configuration: Any, session: SessionSettings, *, is_streaming: bool) -> OptimizerSettings:
        """Reads the options. Raises: ValidationError for one that asks for what flinkpy does not have."""
        if read_option(configuration, DELTA_JOIN_STRATEGY) == "FORCE":
            raise ValidationError(
                "The current sql doesn't support to do delta join optimization: flinkpy has no delta joins. Set "
                f"'{DELTA_JOIN_STRATEGY.key}' to AUTO or NONE.",
                details={"option": DELTA_JOIN_STRATEGY.key},
            )
        splits = is_streaming and read_option(configuration, DISTINCT_AGG_SPLIT_ENABLED)
        return cls(
            session,
            is_streaming,
            read_option(configuration, DISTINCT_AGG_SPLIT_BUCKET_NUM) if splits else None,
            read_option(configuration, MULTI_JOIN_ENABLED),
        )
