"""Entry point of the history server."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from pathlib import Path

from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.process import ShutdownRequest, announce_ready
from flinkpy.configuration import history_options, rest_options
from flinkpy.configuration.options import read_option
from flinkpy.historyserver.archive_fetcher import ArchiveFetcher
from flinkpy.historyserver.archive_store import ArchiveStore
from flinkpy.historyserver.options import HistoryServerOptions, history_server_options
from flinkpy.historyserver.url_file import announced_url
from flinkpy.rest.endpoint import RestEndpoint
from flinkpy.rest.history import history_application
from flinkpy.security import SecurityContext

logger = logging.getLogger(__name__)


async def run_history_server(configuration: Configuration, *, ready_file: str | None = None) -> int:
    """Runs the history server until SIGTERM or SIGINT, and returns the exit status.

    Raises: AddressInUseError, ConfigurationError.
    """
    shutdown = ShutdownRequest()
    shutdown.listen_to_signals()
    options = history_server_options(configuration)
    if read_option(configuration, history_options.WEB_SSL_ENABLED):
        configuration.set_string(rest_options.SSL_ENABLED.key, "true")
    security = SecurityContext.of_service(configuration)
    with tempfile.TemporaryDirectory(prefix="flinkpy-history-", dir=_parent(options.web_directory)) as directory:
        store = ArchiveStore(Path(directory))
        try:
            await _serve(configuration, options, security, store, shutdown, ready_file)
        finally:
            store.close()
    return 0


def _parent(directory: str | None) -> str | None:
    if directory is not None:
        Path(directory).mkdir(parents=True, exist_ok=True)
    return directory


async def _serve(
    configuration: Configuration,
    options: HistoryServerOptions,
    security: SecurityContext,
    store: ArchiveStore,
    shutdown: ShutdownRequest,
    ready_file: str | None,
) -> None:
    file_systems = FileSystems(configuration)
    fetcher = ArchiveFetcher(options.directories, file_systems, store, options.applications, options.jobs)
    endpoint = RestEndpoint(options.web, configuration, security)
    endpoint.bind()
    refreshing = None
    try:
        await endpoint.serve(lambda access: history_application(store, access, options.shown))
        logger.info("history server at %s, for archives in %s", endpoint.url, ", ".join(options.directories))
        refreshing = asyncio.create_task(_refresh(fetcher, options.refresh_interval_ms / 1000), name="archives")
        with announced_url(configuration, endpoint.url):
            announce_ready("historyserver", endpoint.url, ready_file=ready_file)
            reason = await shutdown.wait()
            logger.info("shutting down: %s", reason)
    finally:
        if refreshing is not None:
            refreshing.cancel()
            await asyncio.gather(refreshing, return_exceptions=True)
        await endpoint.stop()


async def _refresh(fetcher: ArchiveFetcher, interval_s: float) -> None:
    """Reads new archives again and again. Reading one takes as long as it does; none is read twice at a time."""
    clock = SystemClock()
    while True:
        started_s = time.monotonic()
        try:
            await asyncio.shield(asyncio.to_thread(fetcher.refresh, clock.now_ms()))
        except Exception:  # the next round may go well
            logger.exception("looking for archives failed")
        await asyncio.sleep(max(0.0, interval_s - (time.monotonic() - started_s)))
