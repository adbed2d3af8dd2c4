"""Time zones of sessions: a name such as Europe/Berlin, or an offset such as GMT+03:00.

Source: java.time.ZoneId, as org.apache.flink.table.api.TableConfig accepts it.
"""

from __future__ import annotations

import datetime
import re
from functools import lru_cache
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"(?:GMT|UTC|UT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?")
_MAX_OFFSET = datetime.timedelta(hours=18)


@lru_cache(maxsize=64)
def zone_of(name: str) -> datetime.tzinfo:
    """Returns the zone. Raises: ValueError if it is not known."""
    if name in ("UTC", "GMT", "UT", "Z"):
        return datetime.UTC
    match = _OFFSET.fullmatch(name)
    if match is not None:
        offset = datetime.timedelta(hours=int(match["hours"]), minutes=int(match["minutes"] or 0))
        if offset > _MAX_OFFSET or int(match["minutes"] or 0) > 59:
            raise ValueError(f"{name} is no offset from -18:00 to +18:00")
        return datetime.timezone(-offset if match["sign"] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (KeyError, OSError) as error:
        raise ValueError(f"unknown time zone {name!r}") from error
