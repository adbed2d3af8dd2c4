"""Says in the words of Kubernetes why a pod waits, cannot start, or has ended. Pure.

Source: org.apache.flink.kubernetes.kubeclient.resources.KubernetesPod.
"""

from __future__ import annotations

from typing import Any

from flinkpy.kubernetes.names import MAIN_CONTAINER

Manifest = dict[str, Any]

#: Reasons of a waiting container that no wait mends, or that the next pod may overcome.
_CANNOT_START = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "PreCreateHookError",
        "RegistryUnavailable",
        "RunContainerError",
    }
)
_MAX_CHARS = 500


def end_of(manifest: Manifest) -> str:
    """Returns why the pod has ended, or cannot start; empty if it lives."""
    status = manifest.get("status") or {}
    container = _main_status(status)
    state = container.get("state") or {}
    if terminated := state.get("terminated"):
        return f"its container ended: {_ending(terminated)}"
    if (phase := status.get("phase")) in ("Failed", "Succeeded"):
        # Evicted, OOM of the node, a node that was shut down: the reason is that of the pod.
        return f"its pod ended with phase {phase}{in_parentheses(_words(status))}"
    waiting = state.get("waiting") or {}
    if waiting.get("reason") in _CANNOT_START:
        return f"its container cannot start: {_words(waiting)}"
    return ""


def trouble_of(manifest: Manifest) -> str:
    """Returns why a container of the pod cannot start, or has ended; empty if all of them run or may still start."""
    for container in (manifest.get("status") or {}).get("containerStatuses") or []:
        name, state = container["name"], container.get("state") or {}
        ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
        if ended:
            return f"container {name} ended: {_ending(ended)}"
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in _CANNOT_START:
            return f"container {name} cannot start: {_words(waiting)}"
    return ""


def delay_of(manifest: Manifest) -> str:
    """Returns why the pod waits; empty if it does not, or for no named reason."""
    status = manifest.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"no node takes its pod: {_words(condition)}"
    return ""


def _main_status(status: Manifest) -> Manifest:
    containers = status.get("containerStatuses") or []
    return next((each for each in containers if each.get("name") == MAIN_CONTAINER), {})


def _ending(terminated: Manifest) -> str:
    code = terminated.get("exitCode")
    signal = terminated.get("signal")
    how = f"killed by signal {signal}" if signal else f"exit code {code}"
    reason = terminated.get("reason")
    said = _words(terminated) if reason not in (None, "Error", "Completed") or terminated.get("message") else ""
    return f"{how}{in_parentheses(said)}"


def _words(described: Manifest) -> str:
    """Returns the reason and the message of a status."""
    parts = [str(described[key]).strip() for key in ("reason", "message") if described.get(key)]
    return ": ".join(parts)[:_MAX_CHARS]


def in_parentheses(text: str) -> str:
    return f" ({text})" if text else ""
