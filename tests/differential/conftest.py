"""The differential tests compare with PyFlink in a separate environment that is created on first use."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of the generated cases: DIFFERENTIAL_SEED, or a random one that is printed."""
    return int(os.environ.get("DIFFERENTIAL_SEED") or secrets.randbelow(1 << 32))


def pytest_report_header() -> str:
    return f"DIFFERENTIAL_SEED={os.environ.get('DIFFERENTIAL_SEED', '(drawn; shown where a case differs)')}"
