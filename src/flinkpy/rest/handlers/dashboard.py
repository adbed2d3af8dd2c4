"""Access of browsers. These operations are flinkpy's own."""

from __future__ import annotations

from urllib.parse import quote

from flinkpy.rest.messages.dashboard import DashboardTicket
from flinkpy.rest.operation import RestCall, operation
from flinkpy.security import Role


@operation(
    "POST",
    "/dashboard/ticket",
    "Returns a link that logs a browser in with the role of the caller, at most `submit`. It is valid once.",
    response=DashboardTicket,
    role=Role.READ,
    is_internal=True,
)
async def new_dashboard_ticket(call: RestCall) -> DashboardTicket:
    return DashboardTicket(path=f"/login?ticket={quote(call.context.access.new_ticket(call.role))}")
