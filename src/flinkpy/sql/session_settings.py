"""SessionSettings: the settings of a session that the values of expressions depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings of a session that results depend on.

    Attributes:
        time_zone: `table.local-time-zone` as an IANA name or offset.
        now_ms: the time of `CURRENT_TIMESTAMP` in batch mode, where it is the same for the whole query; else None.
        legacy_cast: `table.exec.legacy-cast-behaviour`.
    """

    time_zone: str = "UTC"
    now_ms: int | None = None
    legacy_cast: bool = False


DEFAULT_SETTINGS = SessionSettings()
