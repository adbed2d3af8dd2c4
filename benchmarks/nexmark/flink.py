"""Flink SQL in a JVM: `java/`, compiled on first use, with the jars that its pom.xml names."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from benchmarks.peers import BENCH_DIR

JAVA = Path(__file__).resolve().parent / "java"
HOME = BENCH_DIR / "nexmark"
#: Generous for a slow connection.
_FETCH_S = 600
#: The packages that the launcher of Flink opens.
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
)
#: Two slots, and memory as in a TaskManager of 8 GB: that of Nexmark's own settings.
_CLUSTER = {
    "taskmanager.memory.managed.size": "2g",
    "taskmanager.memory.network.min": "256m",
    "taskmanager.memory.network.max": "256m",
}


class FlinkUnavailableError(Exception):
    """Java, Maven or the jars are missing."""


def class_path() -> str:
    """Returns the class path of Flink and of the benchmark. Raises: FlinkUnavailableError with the reason."""
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            raise FlinkUnavailableError(f"{program} is not installed; Flink SQL needs a JDK 17 and Maven")
    HOME.mkdir(parents=True, exist_ok=True)
    pom = JAVA / "pom.xml"
    jars = HOME / "jars"
    sources = sorted((JAVA / "src").rglob("*.*"))
    _once(pom.read_bytes(), HOME / "pom.sha256", lambda: _fetch(pom, jars))
    classes = HOME / "classes"
    text = b"".join(source.read_bytes() for source in [pom, *sources])
    _once(text, HOME / "sources.sha256", lambda: _compile(sources, jars, classes))
    return f"{classes}:{jars}/*"


def _once(text: bytes, stamp: Path, action: Any) -> None:
    """Runs the action unless it has run for the same text."""
    digest = hashlib.sha256(text).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        action()
        stamp.write_text(digest)


def _fetch(pom: Path, jars: Path) -> None:
    sys.stderr.write(f"fetching the jars of Flink SQL into {jars} (once)\n")
    shutil.rmtree(jars, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    _run([*command, f"-DoutputDirectory={jars}"], "the jars of Flink SQL cannot be fetched")


def _compile(sources: list[Path], jars: Path, classes: Path) -> None:
    shutil.rmtree(classes, ignore_errors=True)
    programs = [str(source) for source in sources if source.suffix == ".java"]
    _run(["javac", "--release", "17", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), *programs], "javac failed")
    shutil.copytree(JAVA / "src" / "main" / "resources", classes, dirs_exist_ok=True)


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_S)
    if done.returncode:
        raise FlinkUnavailableError(f"{what}: {(done.stdout + done.stderr)[-2000:]}")


def run_flink(
    programs: list[Path], settings: dict[str, str], parallelism: int, timeout_s: float, heap: str = "4g"
) -> dict[str, dict[str, Any]]:
    """Runs SQL files one after the other in one JVM.

    Returns:
        For each file, by its name without `.sql`: seconds of the job (`job_s`) and of everything (`total_s`), seconds
        of CPU (`cpu_s`) and the largest resident size so far (`peak_rss_mb`); or an `error`.
    """
    path = class_path()
    configuration = programs[0].parent / "flink.properties"
    values = {**_CLUSTER, "taskmanager.numberOfTaskSlots": str(parallelism), **settings}
    configuration.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    opened = [f"--add-opens={each}=ALL-UNNAMED" for each in _OPENED]
    command = ["java", f"-Xmx{heap}", *opened, "-cp", path, "flinkpy.nexmark.Main", str(configuration)]
    return told_by([*command, str(parallelism), *map(str, programs)], len(programs), timeout_s)


def told_by(
    command: list[str],
    programs: int,
    timeout_s: float,
    environment: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> dict[str, dict[str, Any]]:
    """Runs a command that prints a line of JSON per program, and passes the lines on to stderr as they come.

    Raises: RuntimeError with the end of its stderr if it ends early, or after `timeout_s`.
    """
    told: list[dict[str, Any]] = []
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=cwd)
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith('{"query"'):
                told.append(json.loads(line))
                sys.stderr.write(line)
                sys.stderr.flush()
        process.wait()
        timer.cancel()
        if process.returncode or len(told) != programs:
            errors.seek(0)
            raise RuntimeError(
                f"{command[0]} ended with {process.returncode} after {len(told)} of {programs} queries:\n"
                f"{errors.read()[-4000:]}"
            )
    return {each.pop("query"): each for each in told}
