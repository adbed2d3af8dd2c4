"""Which cluster a configuration means, and a client of it.

| `high-availability.type` | `jobmanager.rpc.address`       | Dispatcher                                       |
|--------------------------|--------------------------------|--------------------------------------------------|
| ZOOKEEPER                | any                            | whichever ZooKeeper says leads                   |
| NONE                     | `host:port,host:port`          | whichever of these leads                         |
| NONE                     | `host`                         | at `host` and `jobmanager.rpc.port`              |
"""

from __future__ import annotations

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.configuration import client_options, jobmanager_options, read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.security import SecurityContext


def configured_addresses(configuration: AnyConfiguration) -> str | None:
    """`host:port` of the Dispatcher, or several of them; None where none is configured."""
    host = read_option(configuration, jobmanager_options.ADDRESS)
    if not host:
        return None
    if "," in host or _has_port(host):
        return host
    return f"{host}:{read_option(configuration, jobmanager_options.PORT)}"


def _has_port(address: str) -> bool:
    host, separator, port = address.rpartition(":")
    is_ip_6 = ":" in host and not host.endswith("]")
    return bool(separator and host and port.isdigit() and not is_ip_6)


def is_elected(configuration: AnyConfiguration) -> bool:
    """Whether the Dispatcher that leads is looked up."""
    from flinkpy.highavailability.services import is_highly_available

    return is_highly_available(configuration)


def connect(configuration: AnyConfiguration, addresses: str | None = None) -> ClusterClient:
    """A client of the cluster at `addresses`, else of the one that the configuration means.

    Raises: HighAvailabilityError where ZooKeeper is not to be had, or no Dispatcher leads; ConfigurationError,
        SecretError.
    """
    timeout_s = read_option(configuration, client_options.CLIENT_TIMEOUT) / 1000
    security = SecurityContext.of_client(configuration)
    if addresses is None and is_elected(configuration):
        return _connect_to_leader(configuration, timeout_s, security)
    addresses = addresses or configured_addresses(configuration)
    assert addresses is not None, "nothing says where the cluster is"
    return ClusterClient(addresses, timeout_s, security=security)


def _connect_to_leader(configuration: AnyConfiguration, timeout_s: float, security: SecurityContext) -> ClusterClient:
    from flinkpy.highavailability.services import create_high_availability_services

    services = create_high_availability_services(configuration, security, None, process="client")
    try:
        return ClusterClient(
            services.find_dispatcher(timeout_s).address,
            timeout_s,
            security=security,
            find_leader=lambda: services.find_dispatcher(0).address,
            on_close=services.close,
        )
    except BaseException:
        services.close()
        raise
