"""The clusters of the integration tests, and the seed of a run. The seed is printed; CHAOS_SEED repeats it."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from clusters import start_cluster
from zookeeper_server import zookeeper

__all__ = ["start_cluster", "zookeeper"]

SEED = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(1 << 32))
#: The duration of the faults in one combination.
SECONDS = float(os.environ.get("CHAOS_SECONDS") or 20)


def pytest_report_header() -> str:
    return f"chaos: CHAOS_SEED={SEED} CHAOS_SECONDS={SECONDS:g}"


@pytest.fixture
def seed() -> int:
    return SEED


@pytest.fixture
def seconds() -> float:
    return SECONDS
