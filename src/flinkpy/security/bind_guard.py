"""What may be bound: without TLS only addresses that this host alone can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.common.addresses import is_loopback
from flinkpy.common.errors import ConfigurationError

if TYPE_CHECKING:
    from flinkpy.security.security_context import SecurityContext


def check_bind(address: str, security: SecurityContext) -> None:
    """Raises: ConfigurationError where binding `address` (a host, without a port) would open the cluster to others."""
    if security.tls is not None or security.is_insecure or is_loopback(address.strip("[]")):
        return
    raise ConfigurationError(
        f"cannot bind {address}: other hosts could reach it, and without TLS they could read and change what is said "
        f"there. Either set up mutual TLS (`flinkpy certs`, then `security.ssl.internal.enabled: true`), or bind a "
        f"loopback address such as 127.0.0.1, or accept this on a network you trust with `--insecure` "
        f"(`security.insecure: true`)",
        details={"address": address},
    )
