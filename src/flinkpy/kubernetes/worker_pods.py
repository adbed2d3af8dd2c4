"""WorkerPods: what is known of the pods of TaskExecutors, and what their changes mean for the ResourceManager.

```
   (requested) -- ADDED --> PENDING -- container runs --> RUNNING
                               |                            |
       cannot start (reason) --+                            +-- exits, evicted, deleted --> ended (reason)
```

A pod is known from the moment its creation is asked for. A list of all pods that does not have it, and that was asked
for after its creation was answered, means that it is gone. Changes may be repeated, late or skipped: only the last
state of a pod counts, and a pod that has ended once is not heard of again.

Pure. Source: org.apache.flink.kubernetes.{KubernetesResourceManagerDriver,kubeclient.resources.KubernetesPod}.
Differs: a pod that cannot start because of its image or its volumes counts as failed at once, with the cluster's
reason, instead of after the time-out of its registration.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flinkpy.common.ids import ResourceID
from flinkpy.kubernetes.names import LABEL_RESOURCE_ID
from flinkpy.kubernetes.pod_troubles import delay_of, end_of, in_parentheses

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A worker has ended, or will never start.

    Attributes:
        is_left: its pod still exists and has to be deleted.
    """

    resource_id: ResourceID
    reason: str
    is_left: bool


@dataclass(frozen=True, slots=True)
class WorkerDelayed:
    """A worker has not started yet, for a reason that may pass."""

    resource_id: ResourceID
    reason: str


PodNews = WorkerEnded | WorkerDelayed


@dataclass(slots=True)
class _Pod:
    #: True if the server has answered its creation, or has shown it.
    is_created: bool = False
    #: The reason that was reported last, so that it is reported once.
    delay: str = ""


class WorkerPods:
    def __init__(self) -> None:
        self._pods: dict[ResourceID, _Pod] = {}

    @property
    def resource_ids(self) -> frozenset[ResourceID]:
        return frozenset(self._pods)

    def knows(self, resource_id: ResourceID) -> bool:
        return resource_id in self._pods

    def requested(self, resource_id: ResourceID) -> None:
        """The creation of a pod begins."""
        self._pods[resource_id] = _Pod()

    def created(self, resource_id: ResourceID) -> None:
        """The server has answered that the pod exists."""
        if (pod := self._pods.get(resource_id)) is not None:
            pod.is_created = True

    def forget(self, resource_id: ResourceID) -> None:
        """The pod was not created, or is deleted because it is not wanted: its end is no news."""
        self._pods.pop(resource_id, None)

    def recovered(self, pods: Iterable[Manifest]) -> tuple[list[ResourceID], list[PodNews]]:
        """Takes over the pods of an earlier ResourceManager. Returns those that live, and news of the others."""
        news: list[PodNews] = []
        for pod in pods:
            resource_id = resource_id_of(pod)
            if resource_id is not None and resource_id not in self._pods:
                self._pods[resource_id] = _Pod(is_created=True)
                news += self.changed("ADDED", pod)
        return sorted(self._pods, key=str), news

    def listed(self, pods: Iterable[Manifest], asked_when: frozenset[ResourceID]) -> list[PodNews]:
        """Handles a list of all pods.

        Args:
            asked_when: the pods that were created (`created_ids`) when the list was asked for.
        """
        news: list[PodNews] = []
        found = set()
        for pod in pods:
            resource_id = resource_id_of(pod)
            if resource_id is not None:
                found.add(resource_id)
                news += self.changed("MODIFIED", pod)
        for resource_id in sorted(asked_when - found, key=str):
            if self._pods.pop(resource_id, None) is not None:
                news.append(WorkerEnded(resource_id, "its pod was deleted", is_left=False))
        return news

    @property
    def created_ids(self) -> frozenset[ResourceID]:
        return frozenset(resource_id for resource_id, pod in self._pods.items() if pod.is_created)

    def changed(self, event: str, manifest: Manifest) -> list[PodNews]:
        """Handles a change of a pod: ADDED, MODIFIED or DELETED."""
        resource_id = resource_id_of(manifest)
        pod = None if resource_id is None else self._pods.get(resource_id)
        if resource_id is None or pod is None:
            return []
        pod.is_created = True
        if event == "DELETED":
            del self._pods[resource_id]
            return [WorkerEnded(resource_id, f"its pod was deleted{in_parentheses(end_of(manifest))}", is_left=False)]
        if ended := end_of(manifest):
            del self._pods[resource_id]
            return [WorkerEnded(resource_id, ended, is_left=True)]
        if delay := delay_of(manifest):
            if delay == pod.delay:
                return []
            pod.delay = delay
            return [WorkerDelayed(resource_id, delay)]
        return []


def resource_id_of(manifest: Manifest) -> ResourceID | None:
    """Returns the TaskExecutor of a pod; None if the pod is of somebody else."""
    name = (manifest.get("metadata") or {}).get("labels", {}).get(LABEL_RESOURCE_ID)
    return ResourceID(name) if name else None
