"""Provides a small file system that fills up quickly."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(directory)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        reason = f"NOT TESTED: a full disk needs the right to mount one: {mounted.stderr.strip()}"
        if os.environ.get("FLINKPY_REQUIRE_MOUNT"):
            pytest.fail(reason)
        pytest.skip(reason)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)
