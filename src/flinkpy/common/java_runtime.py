"""Which Java this host has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

#: What Spark 4 needs.
REQUIRED_MAJOR = 17
_TIMEOUT_S = 20.0
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """`path`: of the executable. `major`: 17 of 17.0.2, 8 of 1.8; 0 where it does not say."""

    path: str
    major: int


def find_java() -> JavaRuntime | None:
    """The Java that Spark would start: of JAVA_HOME where that is set, else the first on the PATH. Blocks a little."""
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if path is None or not os.access(path, os.X_OK):
        return None
    try:
        told = subprocess.run(
            [path, "-version"], capture_output=True, text=True, errors="replace", check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return JavaRuntime(path, 0)
    return JavaRuntime(path, major_version(told.stderr + told.stdout))


def major_version(text: str) -> int:
    """Of what `java -version` prints."""
    found = _VERSION.search(text)
    if found is None:
        return 0
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major


def java_obstacle() -> str | None:
    """Why Spark cannot start here for want of Java, and what to do about it; None where it can."""
    java = find_java()
    advice = f"install Java {REQUIRED_MAJOR} (on Debian: apt install openjdk-{REQUIRED_MAJOR}-jre-headless)"
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        return f"Spark needs Java {REQUIRED_MAJOR} or newer, and {where}: {advice}, or set JAVA_HOME"
    if java.major < REQUIRED_MAJOR:
        what = f"is Java {java.major}" if java.major else "does not say its version"
        return f"Spark needs Java {REQUIRED_MAJOR} or newer, but {java.path} {what}: {advice}, or set JAVA_HOME"
    return None
