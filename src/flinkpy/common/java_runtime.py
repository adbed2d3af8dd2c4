"""Detection of the Java runtime that Spark would use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

#: The minimum version for Spark 4.
REQUIRED_MAJOR = 17
_TIMEOUT_S = 20.0
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java runtime.

    Attributes:
        path: path of the executable.
        major: 17 for 17.0.2, 8 for 1.8, and 0 if unknown.
    """

    path: str
    major: int


def find_java() -> JavaRuntime | None:
    """Returns the Java of JAVA_HOME, or else the first on the PATH, as Spark does. Blocks while it runs `java`."""
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if path is None or not os.access(path, os.X_OK):
        return None
    try:
        result = subprocess.run(
            [path, "-version"], capture_output=True, text=True, errors="replace", check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return JavaRuntime(path, 0)
    return JavaRuntime(path, major_version(result.stderr + result.stdout))


def major_version(text: str) -> int:
    """Returns the major version in the output of `java -version`, or 0."""
    match = _VERSION.search(text)
    if match is None:
        return 0
    major = int(match.group(1))
    return int(match.group(2) or 0) if major == 1 else major


def java_obstacle() -> str | None:
    """Returns why Java prevents Spark from starting and what to do about it; None if Java is usable."""
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
