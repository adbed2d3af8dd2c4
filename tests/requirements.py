"""Requirements of some tests beyond Python. A test whose requirement is missing is skipped with a warning."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from functools import cache

import pytest
from java_archives import make_spark_archive


def require(what: str, is_there: bool, reason: str) -> None:
    """Skips the calling test if `is_there` is false. With FLINKPY_REQUIRE_<WHAT>=1 the test fails instead.

    Call it in a fixture or in the test, not at import, so that `pytest -k` does not look for Maven Central in vain.
    """
    if is_there:
        return
    message = f"needs {what}: {reason}"
    if os.environ.get(f"FLINKPY_REQUIRE_{what.upper().replace(' ', '_')}") == "1":
        pytest.fail(f"{message} (FLINKPY_REQUIRE_{what.upper().replace(' ', '_')}=1)")
    pytest.skip(message)


@cache
def has_java(major: int = 17) -> bool:
    """True if `java` of at least this version is on the path."""
    executable = shutil.which("java")
    if executable is None:
        return False
    told = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False).stderr
    version = told.split('"')[1] if '"' in told else "0"
    return int(version.split(".")[0]) >= major


def require_spark() -> None:
    """Skips the calling test if Spark cannot run. Otherwise makes the archive that lets its drivers start faster."""
    require("spark", has_java(17) and importlib.util.find_spec("pyspark") is not None, "Java 17 and pyspark")
    make_spark_archive()
