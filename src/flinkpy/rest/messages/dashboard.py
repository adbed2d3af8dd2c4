"""The body of the operation that makes a link to the dashboard."""

from __future__ import annotations

import msgspec


class DashboardTicket(msgspec.Struct, kw_only=True):
    """A path that logs a browser in. It is valid once and for a minute."""

    path: str
