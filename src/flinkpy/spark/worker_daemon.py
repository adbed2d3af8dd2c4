"""The daemon that forks Spark's Python workers on this host, in place of `pyspark.daemon`.

PySpark's daemon imports nothing, so each worker spends a second of CPU time on importing Arrow, flinkpy and PySpark
before its first record. Spark ends workers that were idle for a minute, so this affects later jobs too. This daemon
imports the modules before it forks, so a worker starts in milliseconds and shares their memory.

The imported modules must not start a thread that a forked worker needs. The pools of Arrow and NumPy start their
threads again in a child.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path


def _prefer_installed_pyspark() -> None:
    """Removes PySpark's archive from the path if it belongs to an installed PySpark, whose modules are compiled."""
    home = os.environ.get("SPARK_HOME", "")
    installed = Path(home).parent
    if os.path.basename(home) == "pyspark" and str(installed) in sys.path:
        archives = os.path.join(home, "python", "lib")
        sys.path[:] = [path for path in sys.path if os.path.dirname(path) != archives]


def preload() -> None:
    """Imports the modules that workers need."""
    _prefer_installed_pyspark()
    import pyarrow as pa
    import pyspark.worker  # noqa: F401

    from flinkpy.spark.translation import worker, worker_chain  # noqa: F401

    # Arrow looks for pandas when it gets its first list, and loads it where it is installed.
    pa.array([0])


def main() -> None:
    """Runs the daemon. Spark calls it by `python -m`, with the module of the workers as argument."""
    preload()
    # Workers collect garbage after each task. Frozen objects, which never become garbage, are not visited.
    gc.collect()
    gc.freeze()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
