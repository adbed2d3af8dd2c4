"""Refuses to bind addresses that other hosts can reach, unless TLS is enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.common.addresses import is_loopback
from flinkpy.common.errors import ConfigurationError

if TYPE_CHECKING:
    from flinkpy.security.security_context import SecurityContext


def check_bind(address: str, security: SecurityContext) -> None:
    """Raises: ConfigurationError if `address` (a host without a port) is reachable by others and TLS is not enabled."""
    if security.tls is not None or security.is_insecure or is_loopback(address.strip("[]")):
        return
    raise ConfigurationError(
        f"cannot bind {address}: other hosts could reach it, and without TLS they could read and change the "
        f"messages. Either set up mutual TLS (`flinkpy certs`, then `security.ssl.internal.enabled: true`), or bind a "
        f"loopback address such as 127.0.0.1, or accept this on a network you trust with `--insecure` "
        f"(`security.insecure: true`)",
        details={"address": address},
    )
