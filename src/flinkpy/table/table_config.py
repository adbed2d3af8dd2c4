"""TableConfig: the options of one TableEnvironment. Source: pyflink.table.table_config."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ValidationError
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import LOCAL_TIME_ZONE, STATE_TTL
from flinkpy.configuration.values import format_duration
from flinkpy.sql.types.time_zones import zone_of

__all__ = ["TableConfig"]


class TableConfig:
    """Reads and changes the options of a TableEnvironment. Changes act on statements that are executed later."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    @staticmethod
    def get_default() -> TableConfig:
        return TableConfig(Configuration())

    def get(self, key: str, default_value: str) -> str:
        """Returns the text of an option."""
        return self._configuration.get_string(key, default_value)

    def set(self, key: str, value: str) -> TableConfig:
        """Sets an option."""
        self._configuration.set_string(key, value)
        return self

    def get_configuration(self) -> Configuration:
        return self._configuration

    def add_configuration(self, configuration: Configuration) -> None:
        """Adds the options of another configuration."""
        self._configuration.add_all(configuration)

    def get_local_timezone(self) -> str:
        """Returns the time zone of the session: a name, or an offset such as `GMT+03:00`."""
        name = read_option(self._configuration, LOCAL_TIME_ZONE)
        return _client_zone() if name == "default" else name

    def set_local_timezone(self, timezone_id: str) -> None:
        """Sets the time zone of the session. Raises: ValidationError for an unknown one."""
        check_time_zone(timezone_id)
        self.set(LOCAL_TIME_ZONE.key, timezone_id)

    def get_idle_state_retention(self) -> datetime.timedelta:
        return datetime.timedelta(milliseconds=read_option(self._configuration, STATE_TTL))

    def set_idle_state_retention(self, duration: datetime.timedelta) -> None:
        """Sets `table.exec.state.ttl`."""
        self.set(STATE_TTL.key, format_duration(round(duration.total_seconds() * 1000)))


def check_time_zone(timezone_id: str) -> None:
    """Raises: ValidationError if a time zone is neither a name, nor an offset such as GMT+03:00."""
    if timezone_id == "default":
        return
    try:
        zone_of(timezone_id)
    except ValueError:
        raise ValidationError(
            "The supported Zone ID is either a full name such as 'America/Los_Angeles', or a custom timezone id such "
            f"as 'GMT-08:00', but configured Zone ID is '{timezone_id}'.",
            details={"option": LOCAL_TIME_ZONE.key, "value": timezone_id},
        ) from None


def _client_zone() -> str:
    """Returns the name of the time zone of this process; UTC if it is not known."""
    candidate = os.environ.get("TZ", "").removeprefix(":")
    link = Path("/etc/localtime")
    if not candidate and link.is_symlink():
        candidate = str(link.resolve()).partition("zoneinfo/")[2]
    try:
        zone_of(candidate or "UTC")
    except ValueError:
        return "UTC"
    return candidate or "UTC"


@contextmanager
def temporary_options(configuration: Configuration, wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets options for the block, such as those of one job of a session."""
    before = configuration.to_dict()
    for key, value in wanted.items():
        configuration.set_string(key, value)
    try:
        yield
    finally:
        for key in wanted:
            if key in before:
                configuration.set_string(key, before[key])
            else:
                configuration.remove_config(key)
