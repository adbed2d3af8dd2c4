"""AsyncConfig: the config map of ML_PREDICT and VECTOR_SEARCH.

Source: org.apache.flink.table.api.config.{MLPredictRuntimeConfigOptions, VectorSearchRuntimeConfigOptions}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.configuration.table_options import ASYNC_ML_PREDICT_OUTPUT_MODE
from flinkpy.table.connectors.table_options import TableOptions

_ASYNC: ConfigOption[bool | None] = ConfigOption("async", OptionType.BOOL, None, "True for several calls in flight.")
_CAPACITY: ConfigOption[int | None] = ConfigOption(
    "max-concurrent-operations", OptionType.INT, None, "Most calls in flight.", minimum=1
)
_TIMEOUT: ConfigOption[int | None] = ConfigOption("timeout", OptionType.DURATION, None, "The time for a row.")
_OUTPUT_MODE: ConfigOption[str | None] = ConfigOption(
    "output-mode",
    OptionType.ENUM,
    None,
    "If results may overtake one another. They never do here.",
    choices=ASYNC_ML_PREDICT_OUTPUT_MODE.choices,
)


@dataclass(frozen=True, slots=True)
class AsyncConfig:
    """The parts of the map; None for one that it does not have.

    Attributes:
        capacity: the largest number of calls in flight.
        timeout_ms: how long a call may take.
    """

    is_async: bool | None
    capacity: int | None
    timeout_ms: int | None

    @classmethod
    def of(cls, raw: Mapping[str, str], function: str) -> AsyncConfig:
        """Reads a map. Raises: ValidationError for an unknown key or a wrong value."""
        options = TableOptions(dict(raw), f"the config of {function}")
        options.check(function, (), (_ASYNC, _CAPACITY, _TIMEOUT, _OUTPUT_MODE))
        return cls(options.get(_ASYNC), options.get(_CAPACITY), options.get(_TIMEOUT))
