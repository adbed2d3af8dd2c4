"""SyncGateway: calls an endpoint from a program that has no event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc

from flinkpy.rpc.client import CHANNEL_OPTIONS, DEFAULT_TIMEOUT_S, call_metadata, explained, typed_error
from flinkpy.rpc.security import open_channel
from flinkpy.rpc.services import service_methods
from flinkpy.rpc.versions import agreed
from flinkpy.security import SecurityContext


class SyncGateway:
    """Calls an endpoint: `gateway.list_jobs(request, timeout_s=...)`. Raises the same errors as `Gateway`."""

    def __init__(
        self, service: str, address: str, fencing_token: str | None = None, *, security: SecurityContext
    ) -> None:
        self._service = service
        self._methods = service_methods(service)
        self._security = security
        self._channel = open_channel(address, CHANNEL_OPTIONS, security)
        #: The calls that were made before, by name.
        self._stubs: dict[str, Any] = {}
        self._fencing_token = fencing_token
        self.address = address
        #: The protocol version of the endpoint's last answer; None before the first answer.
        self.protocol: int | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = self._methods.get(name)
        if method is None:
            raise AttributeError(f"service {self._service} has no call {name!r}")
        call = self._stubs.get(name)
        if call is None:
            call = self._stubs[name] = method.stub(self._channel)

        def unary(request: Any, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> Any:
            try:
                response, answered = call.with_call(request, timeout=timeout_s, metadata=self._metadata())
                self.protocol = agreed(answered.trailing_metadata(), self.address)
                return response
            except grpc.RpcError as error:
                raise explained(typed_error(error, self._service, name, self.address), self._security) from None

        def stream(request: Any, timeout_s: float | None = None) -> Iterator[Any]:
            responses = call(request, timeout=timeout_s, metadata=self._metadata())
            try:
                is_first = True
                for response in responses:
                    if is_first:
                        self.protocol = agreed(responses.initial_metadata(), self.address)
                        is_first = False
                    yield response
            except grpc.RpcError as error:
                raise explained(typed_error(error, self._service, name, self.address), self._security) from None
            finally:
                responses.cancel()

        # Not cached: the function refers to this gateway, so an unclosed gateway would keep its connection open until
        # the cyclic garbage collector frees it.
        return stream if method.server_streaming else unary

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return call_metadata(self._fencing_token, self._security, self._service)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> SyncGateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
