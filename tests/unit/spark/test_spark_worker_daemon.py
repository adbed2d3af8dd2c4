"""The daemon that forks Spark's Python workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

PROGRAM = """
import json, sys
from flinkpy.spark import worker_daemon
worker_daemon.preload()
import pyspark.worker, threading
loaded = [name for name in sys.argv[1:] if name in sys.modules]
print(json.dumps([loaded, pyspark.worker.__file__, threading.active_count()]))
"""
NEEDED = ("numpy", "pandas", "pyarrow", "pyspark.worker", "flinkpy.spark.translation.worker_chain")


def test_the_daemon_has_loaded_the_modules_and_has_no_threads() -> None:
    import pyspark

    home = Path(pyspark.__file__).parent
    archives = ":".join(str(path) for path in (home / "python" / "lib").glob("*.zip"))
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYTHONPATH": f"{archives}:{os.environ.get('PYTHONPATH', '')}",
    }
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *NEEDED], env=environment, capture_output=True, text=True, check=True
    )
    loaded, worker, threads = json.loads(ended.stdout)
    assert loaded == list(NEEDED)
    assert Path(worker) == home / "worker.py", "not the one in the archive, which would be compiled at each start"
    assert threads == 1
