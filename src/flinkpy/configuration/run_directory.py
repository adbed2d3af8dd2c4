"""The run directory: the cluster secret, process records and logs that a user's processes and clients share."""

from __future__ import annotations

import os
from pathlib import Path

from flinkpy.configuration import core_options
from flinkpy.configuration.options import AnyConfiguration, read_option

RUN_DIR_VARIABLE = "FLINKPY_RUN_DIR"


def run_directory(configuration: AnyConfiguration) -> Path:
    """Returns `env.pid.dir`, else FLINKPY_RUN_DIR, else `~/.flinkpy/cluster`."""
    configured = read_option(configuration, core_options.PID_DIR) or os.environ.get(RUN_DIR_VARIABLE)
    return Path(configured).expanduser().absolute() if configured else Path.home() / ".flinkpy" / "cluster"
