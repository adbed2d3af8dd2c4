"""The fixtures of the tests with real processes. They live in `clusters`, because a conftest is not safely imported."""

from __future__ import annotations

from clusters import cluster, start_cluster

__all__ = ["cluster", "start_cluster"]
