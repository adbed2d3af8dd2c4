"""ZooKeeperSettings: the servers, the nodes of this cluster, and the credentials. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import high_availability_options as options
from flinkpy.configuration import read_option
from flinkpy.configuration.options import AnyConfiguration, ConfigOption
from flinkpy.configuration.security_options import INTERNAL_ENABLED

if TYPE_CHECKING:
    from flinkpy.security import SecurityContext, TlsMaterial

#: The name of the user, and the purpose for which its password is derived from the cluster secret.
DIGEST_USER = "flinkpy"
SECRET_PURPOSE = "zookeeper"

_DEFAULT_PORT = 2181
_DEFAULT_CLOSE_WAIT_MS = 5_000
_NODE_NAME = re.compile(r"[A-Za-z0-9._~+:@-]+")


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """The options of ZooKeeper. Times are in seconds.

    Attributes:
        cluster_id: without a slash at its beginning and end.
        credentials: scheme and credential, in the order in which they are sent.
        tls: the TLS material of connections; None: plaintext.
        server_name: the name that a server's certificate must have; None: the host of the server.
        is_open: True if anybody may read and write the nodes.
    """

    quorum: str
    root: str
    cluster_id: str
    execution_plans: str
    session_timeout_s: float
    connection_timeout_s: float
    retry_wait_s: float
    max_retry_wait_s: float
    max_retry_attempts: int
    close_wait_s: float
    tolerates_suspension: bool
    is_open: bool
    credentials: tuple[tuple[str, str], ...] = field(repr=False)
    tls: TlsMaterial | None = field(default=None, repr=False)
    server_name: str | None = None

    @classmethod
    def of(cls, configuration: AnyConfiguration, security: SecurityContext) -> ZooKeeperSettings:
        """Raises: ConfigurationError naming the option."""
        credentials = _credentials(configuration, security)
        acl = read_option(configuration, options.ZOOKEEPER_CLIENT_ACL)
        if acl == "creator" and not credentials:
            raise ConfigurationError(
                f"`{options.ZOOKEEPER_CLIENT_ACL.key}: creator` needs the cluster's secret or "
                f"`{options.ZOOKEEPER_CLIENT_AUTHORIZATION.key}`: without them nobody could use the nodes",
                details={"option": options.ZOOKEEPER_CLIENT_ACL.key},
            )
        close_wait_ms = read_option(configuration, options.ZOOKEEPER_MAX_CLOSE_WAIT)
        return cls(
            quorum=_quorum(configuration),
            root=_path(configuration, options.ZOOKEEPER_ROOT),
            cluster_id=cluster_id(configuration),
            execution_plans=_path(configuration, options.ZOOKEEPER_EXECUTION_PLANS_PATH),
            session_timeout_s=read_option(configuration, options.ZOOKEEPER_SESSION_TIMEOUT) / 1000,
            connection_timeout_s=read_option(configuration, options.ZOOKEEPER_CONNECTION_TIMEOUT) / 1000,
            retry_wait_s=read_option(configuration, options.ZOOKEEPER_RETRY_WAIT) / 1000,
            max_retry_wait_s=read_option(configuration, options.ZOOKEEPER_MAX_RETRY_WAIT) / 1000,
            max_retry_attempts=read_option(configuration, options.ZOOKEEPER_MAX_RETRY_ATTEMPTS),
            close_wait_s=(_DEFAULT_CLOSE_WAIT_MS if close_wait_ms is None else close_wait_ms) / 1000,
            tolerates_suspension=read_option(configuration, options.ZOOKEEPER_TOLERATE_SUSPENDED_CONNECTIONS),
            is_open=acl == "open" or not credentials,
            credentials=credentials,
            tls=_tls(configuration, security),
            server_name=read_option(configuration, options.ZOOKEEPER_SSL_SERVER_NAME).strip() or None,
        )

    @property
    def hosts(self) -> list[tuple[str, int]]:
        servers = [part.rpartition(":") for part in self.quorum.split(",")]
        return [(host.strip("[]"), int(port)) for host, _, port in servers]

    # The nodes

    @property
    def cluster(self) -> str:
        return f"{self.root}/{self.cluster_id}".replace("//", "/")

    @property
    def storage_id(self) -> str:
        return f"{self.cluster}/storage_id"

    def leader(self, component: str) -> str:
        """Returns the node of a component: `dispatcher`, `resource_manager` or the id of a job."""
        return f"{self.cluster}/leader/{component}"

    def latch(self, component: str) -> str:
        return f"{self.leader(component)}/latch"

    def connection_info(self, component: str) -> str:
        return f"{self.leader(component)}/connection_info"

    @property
    def job_graphs(self) -> str:
        return f"{self.cluster}{self.execution_plans}"

    def job(self, job_id: object) -> str:
        return f"{self.cluster}/jobs/{job_id}"

    def checkpoints(self, job_id: object) -> str:
        return f"{self.job(job_id)}/checkpoints"

    def checkpoint_id_counter(self, job_id: object) -> str:
        return f"{self.job(job_id)}/checkpoint_id_counter"


def cluster_id(configuration: AnyConfiguration) -> str:
    """Returns the cluster id, without a slash at its ends. Raises: ConfigurationError if it cannot name a node."""
    return _path(configuration, options.HA_CLUSTER_ID).strip("/")


def storage_directory(configuration: AnyConfiguration) -> Path:
    """Returns `high-availability.storageDir`. Raises: ConfigurationError if it is missing or not a local path."""
    option = options.HA_STORAGE_PATH
    text = read_option(configuration, option)
    if not text:
        raise ConfigurationError(
            f"high availability needs `{option.key}`: a directory that all masters share",
            details={"option": option.key},
        )
    path = re.sub(r"^file:/+", "/", text.strip())
    if not path.startswith("/"):
        raise ConfigurationError(
            f"`{option.key}: {text}` is not an absolute path: mount the storage that the masters share as a directory",
            details={"option": option.key, "value": text},
        )
    return Path(path)


def _credentials(configuration: AnyConfiguration, security: SecurityContext) -> tuple[tuple[str, str], ...]:
    option = options.ZOOKEEPER_CLIENT_AUTHORIZATION
    credentials = list(read_option(configuration, option).items())
    for scheme, credential in credentials:
        if scheme == "digest" and ":" not in credential:
            raise ConfigurationError(
                f"`{option.key}` for the scheme digest is `user:password`", details={"option": option.key}
            )
    if security.secret is not None:
        credentials.append(("digest", f"{DIGEST_USER}:{security.secret.derive(SECRET_PURPOSE)}"))
    return tuple(credentials)


def _tls(configuration: AnyConfiguration, security: SecurityContext) -> TlsMaterial | None:
    option = options.ZOOKEEPER_SSL_ENABLED
    if not read_option(configuration, option):
        return None
    if security.tls is None:
        raise ConfigurationError(
            f"`{option.key}: true` needs `{INTERNAL_ENABLED.key}: true` with a key store and a trust store, which "
            "are used for ZooKeeper too",
            details={"option": option.key},
        )
    return security.tls


def _quorum(configuration: AnyConfiguration) -> str:
    option = options.ZOOKEEPER_QUORUM
    text = read_option(configuration, option)
    if not text or not text.strip():
        raise ConfigurationError(
            f"`{options.HA_MODE.key}: zookeeper` needs `{option.key}`: the servers as `host:port,host:port`",
            details={"option": option.key},
        )
    servers = []
    for part in text.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon or part.strip().endswith("]"):
            host, port = part.strip(), str(_DEFAULT_PORT)
        if not host or "/" in part or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigurationError(
                f"`{option.key}` has `{part.strip()}`: expected `host:port`",
                details={"option": option.key, "value": text},
            )
        servers.append(f"{host}:{port}")
    return ",".join(servers)


def _path(configuration: AnyConfiguration, option: ConfigOption[str]) -> str:
    """Returns the path with one slash at its beginning and none at its end."""
    text = read_option(configuration, option)
    parts = [part for part in text.split("/") if part]
    if not parts or any(not _NODE_NAME.fullmatch(part) or part in (".", "..") for part in parts):
        raise ConfigurationError(
            f"`{option.key}: {text}` is not a valid path: use letters, digits and `._~+:@-`, with `/` between names",
            details={"option": option.key, "value": text},
        )
    return "/" + "/".join(parts)
