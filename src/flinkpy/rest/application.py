"""The ASGI application of the REST server: it routes a request to its operation, and answers in Flink's form.

A request passes these steps: size, access (who calls), role, path and query, body, handler. Each may end it with a
RestError. Every operation exists under `/v1` and without it.

Thread: the process's asyncio loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flinkpy.rest.access import SESSION_COOKIE, SESSION_LIFETIME_S, RestAccess
from flinkpy.rest.context import RestContext
from flinkpy.rest.errors import RestError, as_rest_error, not_found
from flinkpy.rest.handlers import all_operations
from flinkpy.rest.operation import Operation, RestCall
from flinkpy.rest.page_files import PageFiles, accepts_gzip, is_known
from flinkpy.traces.trace_context import TRACEPARENT
from flinkpy.traces.traced_calls import traced_call

logger = logging.getLogger(__name__)

JSON = "application/json; charset=UTF-8"
VERSION_PREFIX = "/v1"

#: Headers of every answer. Pages of other sites cannot frame it, read it or guess its type.
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
#: Scripts and styles only from this server. Graph and plot libraries set styles of elements.
_CONTENT_SECURITY_POLICY = (
    b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    b"object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_REPLACED_HEADERS = frozenset((b"content-security-policy", *(name for name, _ in _SECURITY_HEADERS)))


def rest_application(context: RestContext) -> ASGIApp:
    """Returns the application with all operations."""
    routes = _routes(context, all_operations())
    handlers: dict[Any, Any] = {HTTPException: http_error}
    application = Starlette(routes=routes, exception_handlers=handlers)
    # A path with a slash at its end is another path, as with Flink.
    application.router.redirect_slashes = False
    return Guard(RoutesByForm(routes, application), context.options.max_content_bytes)


def _routes(context: RestContext, operations: Iterable[Operation]) -> list[Route]:
    by_path: dict[str, dict[str, Operation]] = {}
    for one in operations:
        verbs = by_path.setdefault(one.path, {})
        if one.verb in verbs:
            raise ValueError(f"two operations are called {one.name}")
        verbs[one.verb] = one
    # Routes are tried in order, and `/jobs/overview` is not a job.
    ordered = sorted(by_path, key=lambda path: [part.startswith(":") for part in path.split("/")])
    routes = []
    for path in ordered:
        endpoint = _endpoint(context, by_path[path])
        pattern = "/".join(f"{{{part[1:]}}}" if part.startswith(":") else part for part in path.split("/"))
        for prefix in (VERSION_PREFIX, ""):
            routes.append(Route(prefix + pattern, endpoint, methods=list(by_path[path])))
    return [*routes, *browser_routes(context.access)]


def browser_routes(access: RestAccess) -> list[Route]:
    """Returns the routes by which browsers log in and get the page."""
    page = _page(access, PageFiles())
    return [
        Route("/login", _login(access), methods=["GET"]),
        Route("/", page, methods=["GET"]),
        Route("/assets/{name}", page, methods=["GET"]),
    ]


def _endpoint(context: RestContext, by_verb: dict[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        one = by_verb["GET" if request.method == "HEAD" else request.method]
        try:
            return await _answer(context, one, request)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody gets it
        except Exception as error:  # noqa: BLE001 - the boundary where every exception becomes a status
            return error_response(as_rest_error(error, one.name))

    return endpoint


async def _answer(context: RestContext, one: Operation, request: Request) -> Response:
    role = context.access.role_of(request.method, request.headers, request.cookies)
    if role < one.role:
        raise RestError(
            HTTPStatus.FORBIDDEN,
            f"{one.name} requires the role {one.role.label}; the caller has the role {role.label}.",
        )
    call = RestCall(
        context=context,
        role=role,
        path=one.parse_path(request.path_params),
        query=one.parse_query(request.query_params),
        request=request,
    )
    if one.request is not None and not one.takes_files:
        call.body = one.parse_body(await request.body())
    attributes = {"http.request.method": request.method, "http.route": one.path}
    traceparent = request.headers.get(TRACEPARENT)
    with traced_call("flinkpy.rest", f"{request.method} {one.path}", traceparent, attributes):
        result = await one.handler(call)
    if isinstance(result, Response):
        return result
    headers = {"age": str(call.age_ms // 1000)} if call.age_ms >= 1000 else None
    return json_response({} if result is None else result, one.status, headers)


def json_response(body: Any, status: HTTPStatus, headers: dict[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(body), status, {"content-type": JSON, "cache-control": "no-store", **(headers or {})}
    )


def error_response(error: RestError) -> Response:
    return json_response({"errors": [error.message]}, error.status, error.headers)


async def http_error(request: Request, error: HTTPException) -> Response:
    """Answers requests that no operation takes."""
    message = error.detail
    if error.status_code == HTTPStatus.NOT_FOUND:
        message = f"Unable to load requested file {request.url.path}."
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        message = f"Method {request.method} is not allowed for {request.url.path}."
    return error_response(RestError(HTTPStatus(error.status_code), message, dict(error.headers or {})))


def _login(access: RestAccess) -> Callable[[Request], Awaitable[Response]]:
    async def login(request: Request) -> Response:
        """Makes a ticket a session. A ticket in an address bar must not stay there, so the browser is sent on."""
        try:
            access.check_source(request.method, request.headers)
            session = access.redeem(request.query_params.get("ticket", ""))
        except RestError as error:
            if error.status == HTTPStatus.UNAUTHORIZED and "text/html" in request.headers.get("accept", ""):
                return Response(_LINK_IS_USED, error.status, {"cache-control": "no-store"}, "text/html")
            return error_response(error)
        response = RedirectResponse("/", HTTPStatus.SEE_OTHER, {"cache-control": "no-store"})
        response.set_cookie(
            SESSION_COOKIE,
            session,
            max_age=SESSION_LIFETIME_S,
            httponly=True,
            samesite="strict",
            secure=access.scheme == "https",
        )
        return response

    return login


#: The page that a browser shows where the dashboard was not built.
_NOT_BUILT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>flinkpy</title>
<h1>flinkpy</h1>
<p>This installation of flinkpy has no dashboard, because it was made from sources without it.
<code>make dashboard</code> builds it; it needs access to the npm registry. Released wheels contain it.</p>
<p>The REST API is at <a href="/v1/overview">/v1/overview</a>, <a href="/v1/jobs/overview">/v1/jobs/overview</a>,
<a href="/v1/taskmanagers">/v1/taskmanagers</a> and the other paths of Flink's monitoring API.
<code>flinkpy dashboard</code> logs a browser in.</p>
"""
#: The page that a browser shows after a link that cannot be used.
_LINK_IS_USED = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>flinkpy</title>
<h1>This link has been used or has expired</h1>
<p>A link is valid once and for a minute. Run this again, it makes a new one:</p>
<pre>flinkpy dashboard</pre>
<p>If this browser is logged in already, <a href="/">go to the dashboard</a>.</p>
"""


def _page(access: RestAccess, files: PageFiles) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        """Answers with a file of the dashboard. Its names are checked, but it needs no token: it tells nothing."""
        try:
            access.check_source(request.method, request.headers)
        except RestError as error:
            return error_response(error)
        name = request.path_params.get("name")
        gzip = accepts_gzip(request.headers.get("accept-encoding", ""))
        # Files are small, but disks may be slow.
        if name is None:
            found = await asyncio.to_thread(files.index, gzip)
            if found is None:
                return Response(_NOT_BUILT, media_type="text/html", headers={"cache-control": "no-store"})
        else:
            found = await asyncio.to_thread(files.asset, name, gzip)
            if found is None:
                return error_response(not_found(f"Unable to load requested file {request.url.path}."))
        if is_known(found.headers["etag"], request.headers.get("if-none-match", "")):
            kept = {key: value for key, value in found.headers.items() if not key.startswith("content-")}
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=kept)
        return Response(found.content, headers=found.headers)

    return page


class RoutesByForm:
    """Finds the route of a request by the number of parts of its path and the first of them, and calls its endpoint.

    Starlette tries all routes in turn, and each request passes several layers that turn exceptions into answers, which
    these endpoints do themselves. Requests without a route go to `application`, which refuses them.
    """

    def __init__(self, routes: Iterable[Route], application: ASGIApp) -> None:
        self._application = application
        self._routes: dict[tuple[int, str], list[Route]] = {}
        for route in routes:
            self._routes.setdefault(_form(route.path), []).append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for route in self._routes.get(_form(scope["path"]), ()):
                match, found = route.matches(scope)
                if match is Match.FULL:
                    scope.update(found)
                    response = await route.endpoint(Request(scope, receive, send))
                    await response(scope, receive, send)
                    return
        await self._application(scope, receive, send)


def _form(path: str) -> tuple[int, str]:
    parts = path.split("/")
    is_prefixed = len(parts) > 2 and parts[1] == VERSION_PREFIX[1:]
    return len(parts), parts[2 if is_prefixed else 1] if len(parts) > 1 else ""


class _TooLarge(Exception):
    """The body of a request is larger than allowed."""


class Guard:
    """Bounds the size of requests, adds security headers, and keeps defects from ending a connection without answer."""

    def __init__(self, application: ASGIApp, max_content_bytes: int) -> None:
        self._application = application
        self._max_content_bytes = max_content_bytes
        # Not Strict-Transport-Security: it would concern every server at `localhost`, whatever its port.
        self._headers = (
            *_SECURITY_HEADERS,
            (b"content-security-policy", _CONTENT_SECURITY_POLICY),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        has_begun = False
        received_bytes = 0

        async def guarded_send(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                own = [(name, value) for name, value in message.get("headers", ()) if name not in _REPLACED_HEADERS]
                message = {**message, "headers": [*own, *self._headers]}
            await send(message)

        async def guarded_receive() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > self._max_content_bytes:
                raise _TooLarge
            return message

        length = dict(scope["headers"]).get(b"content-length", b"0")
        is_too_large = length.isdigit() and int(length) > self._max_content_bytes
        try:
            if is_too_large:
                raise _TooLarge
            await self._application(scope, guarded_receive, guarded_send)
        except _TooLarge:
            if not has_begun:
                await self._refuse(scope, receive, guarded_send)
        except asyncio.CancelledError:
            raise
        except Exception:
            # Nothing below raises on purpose: handlers' errors have become answers.
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if not has_begun:
                error = RestError(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal server error.")
                await error_response(error)(scope, receive, guarded_send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = RestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The request is larger than `rest.server.max-content-length` ({self._max_content_bytes} bytes).",
            {"connection": "close"},
        )
        await error_response(error)(scope, receive, send)
