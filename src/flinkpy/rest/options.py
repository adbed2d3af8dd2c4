"""RestOptions: the configuration of the REST server, read and validated once at the start of its process."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.addresses import LOOPBACK, is_loopback, parse_port_range
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import client_options, rest_options
from flinkpy.configuration.options import AnyConfiguration, is_set, raw_value, read_option

#: TaskExecutors refuse longer samplings.
_MAX_SAMPLING_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FlameGraphOptions:
    """The options of flame graphs."""

    refresh_interval_ms: int = 60_000
    cleanup_interval_ms: int = 600_000
    num_samples: int = 100
    delay_ms: int = 50
    stack_depth: int = 100

    @property
    def duration_ms(self) -> int:
        """The planned duration of a sampling."""
        return self.num_samples * self.delay_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class RestOptions:
    """The options of the REST server."""

    bind_address: str = LOOPBACK
    #: host under which clients reach the server; None: the address it is bound to
    advertised_host: str | None = None
    #: ports to try, in this order; 0 is any free port
    ports: tuple[int, ...] = (0,)
    #: whether a free port is taken if all ports are in use; False if the user chose the ports
    takes_free_port: bool = False
    requires_token: bool = True
    allowed_hosts: tuple[str, ...] = ()
    max_content_bytes: int = 104_857_600
    max_connections: int = 2_000
    async_store_duration_ms: int = 300_000
    may_submit: bool = True
    may_cancel: bool = True
    may_rescale: bool = True
    refresh_interval_ms: int = 3_000
    #: how old the details of jobs may be
    max_job_age_ms: int = 3_000
    #: how old the statistics of checkpoints may be
    max_checkpoints_age_ms: int = 3_000
    max_kept_checkpoints: int = 1_000
    #: None: a directory inside the working directory
    upload_directory: str | None = None
    max_uploaded_bytes: int = 1 << 30
    result_timeout_ms: int = 60_000
    #: None: flame graphs are switched off
    flame_graphs: FlameGraphOptions | None = FlameGraphOptions()


def read_rest_options(configuration: AnyConfiguration) -> RestOptions | None:
    """Returns the options of the REST server, or None if it is switched off.

    Raises: ConfigurationError, which names the option.
    """
    if not read_option(configuration, rest_options.ENABLED):
        return None
    bind_address = read_option(configuration, rest_options.BIND_ADDRESS) or LOOPBACK
    requires_token = read_option(configuration, rest_options.AUTHENTICATION) == "token"
    if not requires_token and not is_loopback(bind_address.strip("[]")):
        raise ConfigurationError(
            f"`rest.authentication: none` is only for the loopback address, but `rest.bind-address` is {bind_address}: "
            "everybody who reaches it could run programs as the user of this cluster",
            details={"option": rest_options.AUTHENTICATION.key},
        )
    is_chosen = any(is_set(configuration, option) for option in (rest_options.PORT, rest_options.BIND_PORT))
    return RestOptions(
        bind_address=bind_address,
        advertised_host=_advertised_host(configuration, bind_address),
        ports=parse_port_range(read_option(configuration, rest_options.BIND_PORT), rest_options.BIND_PORT.key),
        takes_free_port=not is_chosen,
        requires_token=requires_token,
        allowed_hosts=read_option(configuration, rest_options.ALLOWED_HOSTS),
        max_content_bytes=read_option(configuration, rest_options.MAX_CONTENT_LENGTH),
        max_connections=read_option(configuration, rest_options.MAX_CONNECTIONS),
        async_store_duration_ms=read_option(configuration, rest_options.ASYNC_STORE_DURATION),
        may_submit=read_option(configuration, rest_options.SUBMIT_ENABLED),
        may_cancel=read_option(configuration, rest_options.CANCEL_ENABLED),
        may_rescale=read_option(configuration, rest_options.RESCALE_ENABLED),
        refresh_interval_ms=read_option(configuration, rest_options.REFRESH_INTERVAL),
        max_job_age_ms=_max_job_age_ms(configuration),
        max_checkpoints_age_ms=read_option(configuration, rest_options.CACHED_CHECKPOINTS_TIMEOUT),
        max_kept_checkpoints=read_option(configuration, rest_options.CACHED_CHECKPOINTS_SIZE),
        upload_directory=read_option(configuration, rest_options.UPLOAD_DIRECTORY),
        max_uploaded_bytes=read_option(configuration, rest_options.MAX_UPLOADED),
        result_timeout_ms=read_option(configuration, client_options.CLIENT_TIMEOUT),
        flame_graphs=_flame_graph_options(configuration),
    )


def _flame_graph_options(configuration: AnyConfiguration) -> FlameGraphOptions | None:
    """Returns None if flame graphs are switched off. Raises: ConfigurationError."""
    if not read_option(configuration, rest_options.FLAMEGRAPH_ENABLED):
        return None
    options = FlameGraphOptions(
        refresh_interval_ms=read_option(configuration, rest_options.FLAMEGRAPH_REFRESH_INTERVAL),
        cleanup_interval_ms=read_option(configuration, rest_options.FLAMEGRAPH_CLEANUP_INTERVAL),
        num_samples=read_option(configuration, rest_options.FLAMEGRAPH_NUM_SAMPLES),
        delay_ms=read_option(configuration, rest_options.FLAMEGRAPH_DELAY),
        stack_depth=read_option(configuration, rest_options.FLAMEGRAPH_STACK_DEPTH),
    )
    if options.duration_ms > _MAX_SAMPLING_MS:
        raise ConfigurationError(
            f"`rest.flamegraph.num-samples` times `rest.flamegraph.delay-between-samples` is {options.duration_ms} ms: "
            f"a sampling may take at most {_MAX_SAMPLING_MS} ms",
            details={"option": rest_options.FLAMEGRAPH_NUM_SAMPLES.key},
        )
    return options


def _max_job_age_ms(configuration: AnyConfiguration) -> int:
    age_ms = read_option(configuration, rest_options.CACHED_JOB_TIMEOUT)
    return read_option(configuration, rest_options.REFRESH_INTERVAL) if age_ms is None else age_ms


def _advertised_host(configuration: AnyConfiguration, bind_address: str) -> str | None:
    """Returns the configured host. That of RPC, its fallback, does not reach a server on the loopback address."""
    found = raw_value(configuration, rest_options.ADDRESS)
    if found is not None and found[0] != rest_options.ADDRESS.key and is_loopback(bind_address.strip("[]")):
        return None
    return read_option(configuration, rest_options.ADDRESS)
