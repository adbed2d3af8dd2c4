"""What Spark's Python workers are forked from, in place of `pyspark.daemon`, on this host.

PySpark's daemon imports nothing, and each worker imports Arrow, flinkpy and PySpark for itself: a second of computing
before its first record. Spark ends workers that have been idle for a minute, so this is not only how the first job
begins. This one has imported them before it forks: a worker is there in milliseconds and shares the memory of all that.

Nothing that is imported here may start a thread that a forked worker needs. Arrow's and NumPy's pools make their
threads again in a child.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path


def _prefer_installed_pyspark() -> None:
    """Spark puts PySpark's archive on the path, whose modules have to be compiled anew; where the archive is part of an
    installed PySpark, that is the same code.
    """
    home = os.environ.get("SPARK_HOME", "")
    installed = Path(home).parent
    if os.path.basename(home) == "pyspark" and str(installed) in sys.path:
        archives = os.path.join(home, "python", "lib")
        sys.path[:] = [path for path in sys.path if os.path.dirname(path) != archives]


def preload() -> None:
    """Import what workers need."""
    _prefer_installed_pyspark()
    import pyarrow as pa
    import pyspark.worker  # noqa: F401

    from flinkpy.spark.translation import worker, worker_chain  # noqa: F401

    # Arrow looks for pandas when it gets its first list, and loads it where it is installed.
    pa.array([0])


def main() -> None:
    """As `python -m`, with the module of the workers as argument."""
    preload()
    # What is loaded stays; workers collect garbage after each task, and look at what they have made themselves only.
    gc.collect()
    gc.freeze()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
