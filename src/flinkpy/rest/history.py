"""The ASGI application of the history server: archived answers under the paths of the REST API.

Access, headers, errors and the page are those of the REST server.

Source: org.apache.flink.runtime.webmonitor.history.HistoryServerStaticFileServerHandler.
Thread: the process's asyncio loop.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from flinkpy import __version__
from flinkpy.rest.access import RestAccess
from flinkpy.rest.application import (
    JSON,
    VERSION_PREFIX,
    Guard,
    browser_routes,
    error_response,
    http_error,
    json_response,
)
from flinkpy.rest.archive_format import JOBS_OVERVIEW
from flinkpy.rest.errors import RestError, as_rest_error, not_found
from flinkpy.rest.handlers.cluster import NO_COMMIT
from flinkpy.rest.handlers.options import explained
from flinkpy.rest.messages.cluster import ClusterOverviewWithVersion, DashboardConfiguration, DashboardFeatures
from flinkpy.rest.messages.dashboard import DashboardTicket
from flinkpy.rest.messages.job_details import FormerAttempts, LogUrlResponse
from flinkpy.rest.messages.options import ExplainedOptions
from flinkpy.security import Role

#: Requests have no bodies that are used.
_MAX_CONTENT_BYTES = 64 * 1024
#: Metrics end with the tasks. The page of a running cluster gets an empty list for them, too.
_METRICS = re.compile(
    "(/jobs/[0-9a-f]{32})/(metrics|vertices/[0-9a-f]{32}/(metrics|watermarks|jm-operator-metrics|subtasks/metrics))"
)
_JOB_OPTIONS = re.compile("(/jobs/[0-9a-f]{32})/options")
_FORMER_ATTEMPTS = re.compile("(/jobs/[0-9a-f]{32}/vertices/[0-9a-f]{32})/former-attempts")
_JOB_MANAGER_LOG = re.compile("/jobs/([0-9a-f]{32})/jobmanager/log-url")
_TASK_MANAGER_LOG = re.compile(r"/jobs/([0-9a-f]{32})/taskmanagers/([^/\x00-\x1f]{1,255})/log-url")


class Archives(Protocol):
    """The archived answers."""

    def find(self, path: str) -> bytes | None:
        """Returns the JSON text of the answer at a path of the REST API; None if there is none. May block."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """The parts of the configuration that the history server shows.

    Attributes:
        refresh_interval_ms: how often the page asks for new values.
        job_manager_log: the URL of the log of a JobManager, with placeholders.
        task_manager_log: the URL of the log of a TaskManager, with placeholders.
    """

    refresh_interval_ms: int = 10_000
    job_manager_log: str | None = None
    task_manager_log: str | None = None


def history_application(archives: Archives, access: RestAccess, options: HistoryOptions) -> ASGIApp:
    """Returns the application."""

    async def answer(request: Request) -> Response:
        try:
            access.role_of(request.method, request.headers, request.cookies)
            path = request.url.path.removeprefix(VERSION_PREFIX)
            made = _made(path, options)
            if made is not None:
                return json_response(made, HTTPStatus.OK)
            if metrics := _METRICS.fullmatch(path):
                if await asyncio.to_thread(archives.find, metrics[1]) is None:
                    raise not_found(f"Job {metrics[1].rpartition('/')[2]} not found")
                return json_response([], HTTPStatus.OK)
            found = await asyncio.to_thread(_find, archives, JOBS_OVERVIEW if path in ("/jobs", "/overview") else path)
            if found is None:
                raise not_found(f"Unable to load requested file {request.url.path}.")
            if path == "/overview":
                return json_response(_overview(json.loads(found)["jobs"]), HTTPStatus.OK)
            if path == "/jobs":
                jobs = [{"id": job["jid"], "status": job["state"]} for job in json.loads(found)["jobs"]]
                return json_response({"jobs": jobs}, HTTPStatus.OK)
            return Response(found, headers={"content-type": JSON, "cache-control": "no-store"})
        except Exception as error:  # noqa: BLE001 - the boundary where every exception becomes a status
            return error_response(as_rest_error(error, f"GET {request.url.path[:200]}"))

    routes = [
        Route("/dashboard/ticket", _ticket(access), methods=["POST"]),
        Route(f"{VERSION_PREFIX}/dashboard/ticket", _ticket(access), methods=["POST"]),
        *browser_routes(access),
        Route("/{path:path}", answer, methods=["GET"]),
    ]
    handlers: dict[Any, Any] = {HTTPException: http_error}
    application = Starlette(routes=routes, exception_handlers=handlers)
    application.router.redirect_slashes = False
    return Guard(application, _MAX_CONTENT_BYTES)


def _ticket(access: RestAccess) -> Callable[[Request], Awaitable[Response]]:
    async def ticket(request: Request) -> Response:
        try:
            role = access.role_of(request.method, request.headers, request.cookies)
            # Nothing can be changed here.
            path = f"/login?ticket={quote(access.new_ticket(min(role, Role.READ)))}"
        except RestError as error:
            return error_response(error)
        return json_response(DashboardTicket(path=path), HTTPStatus.OK)

    return ticket


def _made(path: str, options: HistoryOptions) -> msgspec.Struct | None:
    """Returns the answers that no archive has; None for other paths."""
    if path == "/config":
        now = time.localtime()
        return DashboardConfiguration(
            refresh_interval=options.refresh_interval_ms,
            timezone_name=now.tm_zone,
            timezone_offset=now.tm_gmtoff * 1000,
            flink_version=__version__,
            flink_revision=NO_COMMIT,
            features=DashboardFeatures(web_submit=False, web_cancel=False, web_rescale=False, web_history=True),
        )
    if (found := _JOB_MANAGER_LOG.fullmatch(path)) and options.job_manager_log is not None:
        return LogUrlResponse(url=options.job_manager_log.replace("<jobid>", found[1]))
    if (found := _TASK_MANAGER_LOG.fullmatch(path)) and options.task_manager_log is not None:
        return LogUrlResponse(url=options.task_manager_log.replace("<jobid>", found[1]).replace("<tmid>", found[2]))
    return None


def _find(archives: Archives, path: str) -> bytes | None:
    """Returns the answer at a path. Operations that are flinkpy's own are answered for archives of Flink, too."""
    found = archives.find(path)
    if found is None and (job := _JOB_OPTIONS.fullmatch(path)):
        found = archives.find(f"{job[1]}/jobmanager/config")
        if found is not None:
            entries = {str(one["key"]): str(one["value"]) for one in json.loads(found)}
            return msgspec.json.encode(ExplainedOptions(options=explained(entries, "CLUSTER")))
    if found is None and (vertex := _FORMER_ATTEMPTS.fullmatch(path)) and archives.find(vertex[1]) is not None:
        return msgspec.json.encode(FormerAttempts(attempts=[]))
    return found


def _overview(jobs: list[dict[str, Any]]) -> ClusterOverviewWithVersion:
    states = [job.get("state") for job in jobs]
    return ClusterOverviewWithVersion(
        taskmanagers=0,
        slots_total=0,
        slots_available=0,
        jobs_running=0,
        jobs_finished=states.count("FINISHED"),
        jobs_cancelled=states.count("CANCELED"),
        jobs_failed=states.count("FAILED"),
        flink_version=__version__,
        flink_commit=NO_COMMIT,
    )
