"""The one place where RPC is secured.

Today every server binds loopback unless told otherwise and there is no authentication; the credentials of servers and
channels are all made here, so that TLS and the cluster secret change only this module.
"""

from __future__ import annotations

import grpc
import grpc.aio

_NO_PROXY = ("grpc.enable_http_proxy", 0)


def bind_port(server: grpc.aio.Server, address: str) -> int:
    """Bind `server` to `address` (host:port; port 0 takes a free one) and return the port, 0 where it is taken."""
    return server.add_insecure_port(address)


def open_aio_channel(address: str, options: list[tuple[str, object]]) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address, options=[_NO_PROXY, *options])


def open_channel(address: str, options: list[tuple[str, object]]) -> grpc.Channel:
    return grpc.insecure_channel(address, options=[_NO_PROXY, *options])
