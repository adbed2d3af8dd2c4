"""RMQConnectionConfig: the connection to a RabbitMQ server.

Source: org.apache.flink.streaming.connectors.rabbitmq.common.RMQConnectionConfig.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError


@dataclass(frozen=True, repr=False)
class RMQConnectionConfig:
    """The address, credentials and limits of a connection. Create it with `RMQConnectionConfig.Builder`.

    Attributes:
        network_recovery_interval: the time between tries to reconnect, in milliseconds; None for the default.
        connection_timeout: in milliseconds; None for the client's default.
        requested_heartbeat: in seconds; None for the client's default.
        prefetch_count: the number of unacknowledged messages that the server sends at most; None for no limit.

    Example:
        >>> builder = RMQConnectionConfig.Builder().set_host("rabbit").set_port(5672).set_virtual_host("/")
        >>> config = builder.set_user_name("guest").set_password("guest").build()
    """

    host: str | None = None
    port: int | None = None
    virtual_host: str | None = None
    user_name: str | None = None
    password: str | None = None
    uri: str | None = None
    network_recovery_interval: int | None = None
    automatic_recovery: bool | None = None
    topology_recovery: bool | None = None
    connection_timeout: int | None = None
    requested_channel_max: int | None = None
    requested_frame_max: int | None = None
    requested_heartbeat: int | None = None
    prefetch_count: int | None = None

    def get_host(self) -> str | None:
        return self.host

    def get_port(self) -> int | None:
        return self.port

    def get_virtual_host(self) -> str | None:
        return self.virtual_host

    def get_user_name(self) -> str | None:
        return self.user_name

    def get_password(self) -> str | None:
        return self.password

    def get_uri(self) -> str | None:
        return self.uri

    def get_network_recovery_interval(self) -> int | None:
        return self.network_recovery_interval

    def is_automatic_recovery(self) -> bool | None:
        return self.automatic_recovery

    def is_topology_recovery(self) -> bool | None:
        return self.topology_recovery

    def get_connection_timeout(self) -> int | None:
        return self.connection_timeout

    def get_requested_channel_max(self) -> int | None:
        return self.requested_channel_max

    def get_requested_frame_max(self) -> int | None:
        return self.requested_frame_max

    def get_requested_heartbeat(self) -> int | None:
        return self.requested_heartbeat

    def __repr__(self) -> str:
        return f"RMQConnectionConfig({self.server})"

    @property
    def server(self) -> str:
        """The address without user name and password, for errors and log lines."""
        if self.uri is not None:
            scheme, _, rest = self.uri.partition("://")
            return f"{scheme}://{rest.rpartition('@')[2]}"
        return f"amqp://{self.host}:{self.port}{self.virtual_host if self.virtual_host != '/' else ''}"

    @property
    def recovers(self) -> bool:
        """True if a broken connection is to be opened again, which is the default."""
        return self.automatic_recovery is not False

    @property
    def recovery_pause_s(self) -> float:
        return 5.0 if self.network_recovery_interval is None else self.network_recovery_interval / 1000

    def connect(self) -> Any:
        """Opens a connection of pika, for use by one thread.

        Raises: UnsupportedOperationError if pika is not installed; any error of pika.
        """
        pika = load_pika()
        if self.uri is not None:
            parameters = pika.URLParameters(self.uri)
        else:
            parameters = pika.ConnectionParameters(
                host=self.host,
                port=self.port,
                virtual_host=self.virtual_host,
                credentials=pika.PlainCredentials(self.user_name, self.password),
            )
        if self.connection_timeout:
            parameters.socket_timeout = parameters.blocked_connection_timeout = self.connection_timeout / 1000
        if self.requested_heartbeat is not None:
            parameters.heartbeat = self.requested_heartbeat
        if self.requested_frame_max:
            parameters.frame_max = self.requested_frame_max
        if self.requested_channel_max:
            parameters.channel_max = self.requested_channel_max
        return pika.BlockingConnection(parameters)

    class Builder:
        """Builds an RMQConnectionConfig from a URI, or from host, port, virtual host, user name and password."""

        def __init__(self) -> None:
            self._config = RMQConnectionConfig()

        def set_port(self, port: int) -> RMQConnectionConfig.Builder:
            return self._set(port=port)

        def set_host(self, host: str) -> RMQConnectionConfig.Builder:
            return self._set(host=host)

        def set_virtual_host(self, vhost: str) -> RMQConnectionConfig.Builder:
            return self._set(virtual_host=vhost)

        def set_user_name(self, user_name: str) -> RMQConnectionConfig.Builder:
            return self._set(user_name=user_name)

        def set_password(self, password: str) -> RMQConnectionConfig.Builder:
            return self._set(password=password)

        def set_uri(self, uri: str) -> RMQConnectionConfig.Builder:
            """Sets everything at once: `amqp://user:password@host:port/vhost`, or `amqps://` for TLS."""
            return self._set(uri=uri)

        def set_topology_recovery_enabled(self, topology_recovery_enabled: bool) -> RMQConnectionConfig.Builder:
            """Has no effect: a source always declares its queue when it connects."""
            return self._set(topology_recovery=topology_recovery_enabled)

        def set_requested_heartbeat(self, requested_heartbeat: int) -> RMQConnectionConfig.Builder:
            """Sets the heartbeat interval in seconds; 0 means no heartbeats."""
            return self._set(requested_heartbeat=requested_heartbeat)

        def set_requested_frame_max(self, requested_frame_max: int) -> RMQConnectionConfig.Builder:
            return self._set(requested_frame_max=requested_frame_max)

        def set_requested_channel_max(self, requested_channel_max: int) -> RMQConnectionConfig.Builder:
            return self._set(requested_channel_max=requested_channel_max)

        def set_network_recovery_interval(self, network_recovery_interval: int) -> RMQConnectionConfig.Builder:
            """Sets the time in milliseconds between tries to reconnect."""
            return self._set(network_recovery_interval=network_recovery_interval)

        def set_connection_timeout(self, connection_timeout: int) -> RMQConnectionConfig.Builder:
            """Sets the connection timeout in milliseconds; 0 means no timeout."""
            return self._set(connection_timeout=connection_timeout)

        def set_automatic_recovery(self, automatic_recovery: bool) -> RMQConnectionConfig.Builder:
            """Sets whether a broken connection is opened again. If not, it fails the job, which recovers."""
            return self._set(automatic_recovery=automatic_recovery)

        def set_prefetch_count(self, prefetch_count: int) -> RMQConnectionConfig.Builder:
            """Sets how many unacknowledged messages the server sends at most.

            With checkpoints, messages are acknowledged only by a checkpoint. This is then also the number of messages
            that a source reads between two checkpoints at most.
            """
            return self._set(prefetch_count=prefetch_count)

        def build(self) -> RMQConnectionConfig:
            """Returns the configuration. Raises: ValueError if a part of the address is missing."""
            config = self._config
            if config.uri is None:
                for name in ("host", "port", "virtual_host", "user_name", "password"):
                    if getattr(config, name) is None:
                        raise ValueError(f"RMQConnectionConfig: {name} is missing (or give all in one with set_uri)")
            return config

        def _set(self, **values: Any) -> RMQConnectionConfig.Builder:
            for name, value in values.items():
                if value is None:
                    raise TypeError(f"RMQConnectionConfig: {name} must not be None")
            self._config = replace(self._config, **values)
            return self


def load_pika() -> Any:
    try:
        import pika
    except ImportError as error:
        raise UnsupportedOperationError("RabbitMQ needs its client: pip install 'flinkpy[rabbitmq]'") from error
    return pika
