"""Pods as an API server shows them."""

from __future__ import annotations

from typing import Any

from flinkpy.kubernetes.names import LABEL_RESOURCE_ID, MAIN_CONTAINER


def pod(worker: str, *, phase: str = "Pending", state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """Returns the pod of a TaskExecutor. `state`: that of its container."""
    shown = {"phase": phase, **status}
    if state is not None:
        shown["containerStatuses"] = [
            {"name": "sidecar", "state": {"running": {}}},
            {"name": MAIN_CONTAINER, "state": state},
        ]
    labels = {LABEL_RESOURCE_ID: worker}
    return {"metadata": {"name": f"demo-{worker}", "labels": labels, "resourceVersion": "1"}, "status": shown}
