"""Fetches the jars of the Kafka broker unless they are present. `python fetch.py` exits with 0 if they are present."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
POM = Path(__file__).with_name("pom.xml")


def fetch_jars() -> tuple[Path, str | None]:
    """Returns the directory of the jars, and the reason if they cannot be fetched. Safe for concurrent processes."""
    folder = ROOT / ".data" / "kafka-broker"
    jars = folder / "jars"
    if shutil.which("mvn") is None:
        return jars, "mvn is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = POM.read_text()
        done = folder / "pom-of-the-jars.xml"
        if not done.exists() or done.read_text() != wanted:
            shutil.rmtree(jars, ignore_errors=True)
            command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
            completed = subprocess.run(
                [*command, f"-DoutputDirectory={jars}"], capture_output=True, text=True, check=False, timeout=300
            )
            if completed.returncode:
                return jars, f"{completed.stdout}{completed.stderr}"[-1000:]
            done.write_text(wanted)
    return jars, None


if __name__ == "__main__":
    _, reason = fetch_jars()
    sys.exit(reason)
