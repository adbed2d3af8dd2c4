"""EmitStrategy: when group windows send results before and after their ends, as the session's options say.

Source: org.apache.flink.table.planner.plan.utils.WindowEmitStrategy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import TableProgramError
from flinkpy.configuration.options import ConfigOption, read_option
from flinkpy.configuration.table_options import (
    EMIT_ALLOW_LATENESS,
    EMIT_EARLY_FIRE_DELAY,
    EMIT_EARLY_FIRE_ENABLED,
    EMIT_LATE_FIRE_DELAY,
    EMIT_LATE_FIRE_ENABLED,
    STATE_TTL,
)


@dataclass(frozen=True, slots=True)
class EmitStrategy:
    """Attributes:
    early_ms, late_ms: the intervals; 0 for each row, None for not at all.
    allow_lateness_ms: how long rows of a window are taken after its end.
    """

    early_ms: int | None = None
    late_ms: int | None = None
    allow_lateness_ms: int = 0

    def __str__(self) -> str:
        """Returns the strategy as plans show it; nothing if results are only sent at the end."""
        delays = {"early": self.early_ms, "late": self.late_ms}
        texts = {name: f"delay {delay} millisecond" if delay else "no delay" for name, delay in delays.items()}
        return ", ".join(f"{name} {text}" for name, text in texts.items() if delays[name] is not None)


NO_EMIT = EmitStrategy()


def emit_strategy(configuration: Any, kind: str, is_event_time: bool) -> EmitStrategy:
    """Returns the strategy for a group window of this kind.

    Raises: TableProgramError if the options do not fit each other or the window.
    """
    has_early = read_option(configuration, EMIT_EARLY_FIRE_ENABLED)
    has_late = read_option(configuration, EMIT_LATE_FIRE_ENABLED)
    if not has_early and not has_late:
        return NO_EMIT
    if kind == "SESSION":
        raise TableProgramError("Session window doesn't support EMIT strategy currently.")
    lateness = 0
    if has_late:
        allowed = read_option(configuration, EMIT_ALLOW_LATENESS)
        lateness = read_option(configuration, STATE_TTL) if allowed is None else allowed
        if is_event_time and lateness <= 0:
            raise TableProgramError(
                "The 'AFTER WATERMARK' emit strategy requires set 'allow-lateness' or 'minIdleStateRetentionTime' in "
                f"table config. Set {EMIT_ALLOW_LATENESS.key} or {STATE_TTL.key}."
            )
    early = _delay(configuration, EMIT_EARLY_FIRE_DELAY, "early") if has_early else None
    late = _delay(configuration, EMIT_LATE_FIRE_DELAY, "late") if has_late else None
    if late is not None and late > lateness:
        raise TableProgramError(
            f"Allow-lateness [{lateness}ms] should not be smaller than Late-fire delay [{late}ms] when enable "
            "late-fire emit strategy."
        )
    return EmitStrategy(early, late, lateness)


def _delay(configuration: Any, option: ConfigOption[int | None], name: str) -> int:
    delay = read_option(configuration, option)
    if delay is None:
        raise TableProgramError(
            f"{name.capitalize()}-fire delay should not be null or negative value when enable {name}-fire emit "
            f"strategy. Set {option.key}."
        )
    return delay


def check_no_emit(configuration: Any) -> None:
    """Raises: TableProgramError if results are to be sent early or late, which window functions cannot."""
    if read_option(configuration, EMIT_EARLY_FIRE_ENABLED) or read_option(configuration, EMIT_LATE_FIRE_ENABLED):
        raise TableProgramError(
            "Currently, window table function based aggregate doesn't support early-fire and late-fire configuration "
            f"'{EMIT_EARLY_FIRE_ENABLED.key}' and '{EMIT_LATE_FIRE_ENABLED.key}'."
        )
