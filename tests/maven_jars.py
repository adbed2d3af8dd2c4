"""Fetches the jars that tests need from Maven Central, into `.data`.

The pom.xml of a directory of tests/integration names the jars.

`python maven_jars.py kafka_broker hadoop_cluster` exits with 0 if the jars of both directories are present.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from requirements import require

ROOT = Path(__file__).resolve().parents[1]
#: The time limit for one directory; generous for a slow connection.
_FETCH_S = 300


def fetch_jars(name: str) -> tuple[Path, str | None]:
    """Fetches the jars of a directory of tests/integration, unless they are present. Safe for concurrent processes.

    Returns:
        The directory of the jars, and the reason if they cannot be fetched.
    """
    pom = ROOT / "tests" / "integration" / name / "pom.xml"
    folder = ROOT / ".data" / name.replace("_", "-")
    jars = folder / "jars"
    if shutil.which("mvn") is None:
        return jars, "mvn is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = pom.read_text()
        done = folder / "pom-of-the-jars.xml"
        if not done.exists() or done.read_text() != wanted:
            shutil.rmtree(jars, ignore_errors=True)
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
            completed = subprocess.run(
                [*command, f"-DoutputDirectory={jars}"], capture_output=True, text=True, check=False, timeout=_FETCH_S
            )
            if completed.returncode:
                return jars, f"{completed.stdout}{completed.stderr}"[-1000:]
            done.write_text(wanted)
    return jars, None


def require_jars(name: str) -> Path:
    """Returns the directory of the jars. Skips the calling test if they cannot be fetched."""
    jars, reason = fetch_jars(name)
    require("maven central", reason is None, str(reason))
    return jars


if __name__ == "__main__":
    reasons = [f"{name}: {reason}" for name in sys.argv[1:] if (reason := fetch_jars(name)[1]) is not None]
    sys.exit("\n".join(reasons) or None)
