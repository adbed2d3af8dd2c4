"""Fetches a Spark for which Iceberg and Delta have connectors, and the connectors, unless they are present.

The installed pyspark may be newer than these. `python fetch.py` exits with 0 if all is present.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
POM = Path(__file__).with_name("pom.xml")
#: The newest Spark that both connectors in pom.xml are made for.
PYSPARK = "pyspark==4.1.4"
#: Time limits. The package of Spark has 450 MB.
_MAVEN_S, _PIP_S = 300, 900


def fetch_spark() -> tuple[Path, Path, str | None]:
    """Returns the directories of pyspark and of the jars, and the reason if they cannot be fetched.

    Safe for concurrent processes.
    """
    folder = ROOT / ".data" / "spark-tables"
    python, jars = folder / "python", folder / "jars"
    if shutil.which("mvn") is None:
        return python, jars, "mvn is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = f"{PYSPARK}\n{POM.read_text()}"
        done = folder / "what-is-here.txt"
        if not done.exists() or done.read_text() != wanted:
            shutil.rmtree(jars, ignore_errors=True)
            shutil.rmtree(python, ignore_errors=True)
            maven = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(python), PYSPARK]
            for command, limit_s in (([*maven, f"-DoutputDirectory={jars}"], _MAVEN_S), (pip, _PIP_S)):
                completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
                if completed.returncode:
                    return python, jars, f"{completed.stdout}{completed.stderr}"[-1000:]
            done.write_text(wanted)
    return python, jars, None


if __name__ == "__main__":
    *_, reason = fetch_spark()
    sys.exit(reason)
