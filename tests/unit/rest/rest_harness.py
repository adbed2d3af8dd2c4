"""A REST application without sockets, in front of services that tests write as classes with the calls they need."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.dispatcher.session_applications import SessionApplications
from flinkpy.rest.access import RestAccess
from flinkpy.rest.application import rest_application
from flinkpy.rest.asynchronous_operations import AsynchronousOperations
from flinkpy.rest.context import RestContext
from flinkpy.rest.options import RestOptions
from flinkpy.rest.programs import Programs
from flinkpy.security import Audience, ClusterSecret, Role

NOW_MS = 1_700_000_000_000
HOST = "localhost:8081"


class TestingServices:
    """The services of a cluster, each an object with coroutine methods as of a gateway, or an error to raise."""

    __test__ = False

    def __init__(self, dispatcher: Any = None, resource_manager: Any = None, task_executors: Any = None) -> None:
        self._dispatcher = dispatcher
        self._resource_manager = resource_manager
        self._task_executors = task_executors or {}

    def dispatcher(self) -> Any:
        return _or_raise(self._dispatcher)

    def dispatcher_address(self) -> str:
        return "localhost:6123"

    async def resource_manager(self) -> Any:
        return _or_raise(self._resource_manager)

    def task_executor(self, address: str) -> Any:
        return _or_raise(self._task_executors[address])


def _or_raise(service: Any) -> Any:
    if isinstance(service, Exception):
        raise service
    return service


class RestHarness:
    """A REST application and a client that calls it."""

    def __init__(
        self,
        services: TestingServices | None = None,
        options: RestOptions | None = None,
        configuration: dict[str, str] | None = None,
    ) -> None:
        self.options = options or RestOptions()
        self.clock = ManualClock(NOW_MS)
        self.secret = ClusterSecret(bytes(range(32)))
        entries = Configuration()
        for key, value in (configuration or {}).items():
            entries.set_string(key, value)
        cluster = services or TestingServices()
        self.uploads: Path | None = None
        self.context = RestContext(
            cluster=cluster,
            options=self.options,
            configuration=entries,
            access=RestAccess(
                self.secret if self.options.requires_token else None,
                frozenset(self.options.allowed_hosts),
                "http",
                self.clock,
            ),
            operations=AsynchronousOperations(self.options.async_store_duration_ms, self.clock),
            programs=Programs(self._upload_directory, self.options.max_uploaded_bytes),
            applications=SessionApplications(cluster, self.clock),
            clock=self.clock,
        )
        self.application = rest_application(self.context)

    def _upload_directory(self) -> Path:
        if self.uploads is None:
            raise AssertionError("the test sets the directory of uploads")
        return self.uploads

    def token(self, role: Role = Role.SUBMIT, audience: Audience = Audience.DISPATCHER, days: int = 1) -> str:
        return self.secret.token(role, audience, NOW_MS // 1000 + days * 86_400)

    def call(self, verb: str, path: str, *, role: Role | None = Role.SUBMIT, **arguments: Any) -> httpx.Response:
        """Makes one request, with a token of `role`; without one if it is None."""
        return asyncio.run(self.acall(verb, path, role=role, **arguments))

    async def acall(self, verb: str, path: str, *, role: Role | None = Role.SUBMIT, **arguments: Any) -> httpx.Response:
        headers = {"host": HOST, **arguments.pop("headers", {})}
        if role is not None:
            headers["authorization"] = f"Bearer {self.token(role)}"
        transport = httpx.ASGITransport(self.application)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.request(verb, path, headers=headers, **arguments)
