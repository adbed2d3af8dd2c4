"""HistoryServerOptions: the configuration of the history server, read and validated once at its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkpy.checkpoint.storage.file_systems import normalized
from flinkpy.common.addresses import LOOPBACK, is_loopback
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import history_options, rest_options
from flinkpy.configuration.options import AnyConfiguration, ConfigOption, is_set, read_option
from flinkpy.historyserver.archive_fetcher import Retention
from flinkpy.rest.history import HistoryOptions
from flinkpy.rest.options import RestOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryServerOptions:
    """The options of the history server.

    Attributes:
        directories: where archives are looked for.
        web: where the server listens, and who may use it.
        shown: what it shows beside the archives.
        web_directory: of the copy of the archives; None: a temporary directory.
    """

    directories: tuple[str, ...]
    refresh_interval_ms: int = 10_000
    applications: Retention = field(default_factory=Retention)
    jobs: Retention = field(default_factory=Retention)
    web: RestOptions = field(default_factory=RestOptions)
    shown: HistoryOptions = field(default_factory=HistoryOptions)
    web_directory: str | None = None


def history_server_options(configuration: AnyConfiguration) -> HistoryServerOptions:
    """Reads the options of the history server. Raises: ConfigurationError, which names the option."""
    directories = _directories(configuration)
    ttl_ms = read_option(configuration, history_options.RETAINED_TTL)
    bind_address = read_option(configuration, history_options.WEB_ADDRESS) or LOOPBACK
    requires_token = read_option(configuration, rest_options.AUTHENTICATION) == "token"
    if not requires_token and not is_loopback(bind_address.strip("[]")):
        raise ConfigurationError(
            "`rest.authentication: none` is only for the loopback address, but `historyserver.web.address` is "
            f"{bind_address}: everybody who reaches it could read the history of this cluster",
            details={"option": rest_options.AUTHENTICATION.key},
        )
    return HistoryServerOptions(
        directories=directories,
        refresh_interval_ms=read_option(configuration, history_options.ARCHIVE_REFRESH_INTERVAL),
        applications=Retention(
            max_archives=_count(configuration, history_options.RETAINED_APPLICATIONS),
            ttl_ms=ttl_ms,
            cleans_expired=read_option(configuration, history_options.CLEAN_EXPIRED_APPLICATIONS),
        ),
        jobs=Retention(
            max_archives=_count(configuration, history_options.RETAINED_JOBS),
            ttl_ms=ttl_ms,
            cleans_expired=read_option(configuration, history_options.CLEAN_EXPIRED_JOBS),
        ),
        web=RestOptions(
            bind_address=bind_address,
            ports=(read_option(configuration, history_options.WEB_PORT),),
            takes_free_port=not is_set(configuration, history_options.WEB_PORT),
            requires_token=requires_token,
            allowed_hosts=read_option(configuration, rest_options.ALLOWED_HOSTS),
            max_connections=read_option(configuration, rest_options.MAX_CONNECTIONS),
        ),
        shown=HistoryOptions(
            refresh_interval_ms=read_option(configuration, history_options.WEB_REFRESH_INTERVAL),
            job_manager_log=_url_pattern(configuration, history_options.JOB_MANAGER_LOG_URL),
            task_manager_log=_url_pattern(configuration, history_options.TASK_MANAGER_LOG_URL),
        ),
        web_directory=read_option(configuration, history_options.WEB_DIRECTORY),
    )


def _directories(configuration: AnyConfiguration) -> tuple[str, ...]:
    text = read_option(configuration, history_options.ARCHIVE_DIRECTORIES) or ""
    directories = tuple(dict.fromkeys(normalized(part) for part in text.split(",") if part.strip()))
    if not directories:
        raise ConfigurationError(
            "the history server needs `historyserver.archive.fs.dir`: the directories, separated by commas, to which "
            "Dispatchers write archives (their option `jobmanager.archive.fs.dir`)",
            details={"option": history_options.ARCHIVE_DIRECTORIES.key},
        )
    return directories


def _count(configuration: AnyConfiguration, option: ConfigOption[int]) -> int | None:
    """Returns how many archives stay; None: all. Raises: ConfigurationError."""
    count = read_option(configuration, option)
    if count == 0:
        raise ConfigurationError(
            f"option `{option.key}` has the value `0`: expected a positive number, or -1 for all archives",
            details={"option": option.key},
        )
    return None if count < 0 else count


def _url_pattern(configuration: AnyConfiguration, option: ConfigOption[str | None]) -> str | None:
    pattern = read_option(configuration, option)
    if pattern is not None and not pattern.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"option `{option.key}` has the value `{pattern}`: expected a URL with http or https",
            details={"option": option.key},
        )
    return pattern
