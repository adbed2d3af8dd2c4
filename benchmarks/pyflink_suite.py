"""pyflink-suite: the DataStream examples of the apache-flink wheel that end by themselves, whole run, here and there.

The examples are taken from PyFlink's installation; here they run with only their imports changed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.peers import pyflink_python
from benchmarks.result import Result

BAR_SHARE_OF_PYFLINK = 0.15
ROUNDS = 2
EXAMPLES = (
    "basic_operations.py",
    "event_time_timer.py",
    "process_json_data.py",
    "state_access.py",
    "word_count.py",
    "windowing/session_with_dynamic_gap_window.py",
    "windowing/session_with_gap_window.py",
    "windowing/sliding_time_window.py",
    "windowing/tumbling_count_window.py",
    "windowing/tumbling_time_window.py",
)
_IMPORT = re.compile(r"^(\s*(?:from|import)\s+)pyflink\b", re.MULTILINE)


def examples_folder(home: Path) -> Path:
    """Returns the folder of the DataStream examples of PyFlink in the virtual environment `home`."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return home / "lib" / version / "site-packages" / "pyflink" / "examples" / "datastream"


def with_our_imports(text: str) -> str:
    return _IMPORT.sub(r"\1flinkpy", text)


def _wall_s(python: Path | str, program: Path) -> float:
    """Best of a few runs of a whole process."""
    environment = dict(
        os.environ, PYTHONWARNINGS="ignore", PATH=f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    )
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        subprocess.run([str(python), str(program)], check=True, capture_output=True, env=environment, timeout=600)
        times.append(time.perf_counter() - begin)
    return min(times)


def run() -> list[Result]:
    """Returns one result per example, and one for all of them."""
    peer_python = pyflink_python()
    folder = examples_folder(peer_python.parent.parent)
    results = []
    total_ours = total_peer = 0.0
    with tempfile.TemporaryDirectory() as directory:
        for name in EXAMPLES:
            program = Path(directory) / Path(name).name
            program.write_text(with_our_imports((folder / name).read_text()))
            ours, peer = _wall_s(sys.executable, program), _wall_s(peer_python, folder / name)
            total_ours += ours
            total_peer += peer
            results.append(Result(f"pyflink-suite {name}", ours, peer, "s", "PyFlink", peer / ours))
    note = f"bar: at most {BAR_SHARE_OF_PYFLINK} of the peer's wall time, all examples together"
    total = Result(
        "pyflink-suite", total_ours, total_peer, "s", "PyFlink", total_peer / total_ours, 1 / BAR_SHARE_OF_PYFLINK, note
    )
    return [*results, total]
