"""Fixtures that the tests of checkpoint storage share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from checkpoint_states import make_storage

from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorage
from flinkpy.common import failpoints


@pytest.fixture(autouse=True)
def _no_failpoints() -> Iterator[None]:
    yield
    failpoints.arm("")


@pytest.fixture
def storage(tmp_path: Path) -> CheckpointStorage:
    """Checkpoint storage in a directory of the test."""
    return make_storage(tmp_path)
