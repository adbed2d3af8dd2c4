"""A crash at each step of an unaligned checkpoint. `make test` contains the same test for aligned checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import StartCluster
from test_crash_points import crash_at_each_step
from test_exactly_once import TIMEOUT, UNALIGNED


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", [pytest.param(UNALIGNED, id="unaligned"), pytest.param(TIMEOUT, id="timeout")])
def test_a_crash_at_any_step_costs_nothing_but_time(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: dict[str, str]
) -> None:
    crash_at_each_step(start_cluster, tmp_path, monkeypatch, **mode)
