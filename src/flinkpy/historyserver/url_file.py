"""The file in which a history server tells its URL to commands of its user, because it may have taken a free port.

It lies in the user's run directory. It names the process too, so a file that a killed process left is not believed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from flinkpy.common.durable_file import write_durably
from flinkpy.common.errors import FlinkError
from flinkpy.common.private_directory import make_private_directory
from flinkpy.common.process import ProcessIdentity
from flinkpy.configuration.loading import run_directory
from flinkpy.configuration.options import AnyConfiguration

logger = logging.getLogger(__name__)

_FILE = "historyserver.json"


def _path(configuration: AnyConfiguration) -> Path:
    return run_directory(configuration) / _FILE


@contextlib.contextmanager
def announced_url(configuration: AnyConfiguration, url: str) -> Iterator[None]:
    """Keeps the file while this process serves at `url`. Of several history servers, the last one is found."""
    path = _path(configuration)
    own = ProcessIdentity.of(os.getpid())
    assert own is not None  # this process lives
    content = json.dumps({"url": url, "pid": own.pid, "start_ticks": own.start_ticks}).encode()
    try:
        make_private_directory(path.parent)
        write_durably(path, content)
    except (OSError, FlinkError) as error:
        logger.warning("`flinkpy dashboard --history` does not find this history server by itself: %s", error)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if path.read_bytes() == content:
                path.unlink()


def find_url(configuration: AnyConfiguration) -> str | None:
    """Returns the URL of this user's history server; None if none runs on this host."""
    try:
        found = json.loads(_path(configuration).read_bytes())
        is_alive = ProcessIdentity(found["pid"], found["start_ticks"]).is_alive
        return str(found["url"]) if is_alive else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
