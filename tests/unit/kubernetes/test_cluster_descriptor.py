"""How clusters are created, and what a start tells when it fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flinkpy.common.errors import KubernetesError
from flinkpy.kubernetes.cluster_descriptor import KubernetesClusterDescriptor
from flinkpy.kubernetes.cluster_objects import ClusterObjects

OBJECTS = ClusterObjects(
    {"kind": "Deployment", "metadata": {"name": "demo"}},
    (("configmaps", {"metadata": {"name": "a"}}), ("secrets", {"metadata": {"name": "b"}})),
)
READY = {"readyReplicas": 1}
REFUSED = {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: none"}]}


def masters(**state: Any) -> dict[str, Any]:
    return {"metadata": {"name": "demo-1"}, "status": {"containerStatuses": [{"name": "resourcemanager", **state}]}}


class ApiOfTest:
    namespace = "data"

    def __init__(self, status: dict[str, Any], pods: list[dict[str, Any]], refused: str = "") -> None:
        self._status, self._pods, self._refused = status, pods, refused
        self.created: list[tuple[str, dict[str, Any]]] = []
        self.deleted: list[str] = []

    async def create(self, kind: str, manifest: dict[str, Any]) -> dict[str, Any]:
        if kind == self._refused:
            raise KubernetesError("Kubernetes refuses: forbidden", details={"status": "403"})
        self.created.append((kind, manifest))
        return {**manifest, "metadata": {**manifest["metadata"], "uid": "7"}}

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        return {"status": self._status}

    async def list(self, kind: str, label_selector: str) -> tuple[list[dict[str, Any]], str]:
        return self._pods, "1"

    async def delete(self, kind: str, name: str) -> bool:
        self.deleted.append(name)
        return True


def deploy(api: ApiOfTest, told: list[str] | None = None, timeout_s: float = 60) -> None:
    tell = [].append if told is None else told.append
    asyncio.run(KubernetesClusterDescriptor(api, tell).deploy(OBJECTS, timeout_s))  # type: ignore[arg-type]


def test_the_deployment_is_created_first_and_owns_the_others() -> None:
    api = ApiOfTest(READY, [])
    deploy(api)
    assert [kind for kind, _ in api.created] == ["deployments", "configmaps", "secrets"]
    for _, manifest in api.created[1:]:
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert (owner["name"], owner["uid"]) == ("demo", "7")
    assert api.deleted == []


@pytest.mark.parametrize(
    ("api", "message"),
    [
        (ApiOfTest(READY, [], refused="secrets"), "forbidden"),
        (ApiOfTest(REFUSED, []), "makes no pod for the masters of demo: exceeded quota: none"),
        (
            ApiOfTest({}, [masters(state={"waiting": {"reason": "ErrImagePull", "message": "no such image"}})]),
            "container resourcemanager cannot start: ErrImagePull: no such image",
        ),
        (
            ApiOfTest({}, [masters(state={"running": {}}, lastState={"terminated": {"exitCode": 2}})]),
            "container resourcemanager ended: exit code 2",
        ),
    ],
)
def test_a_start_that_fails_leaves_nothing_and_tells_why(api: ApiOfTest, message: str) -> None:
    with pytest.raises(KubernetesError, match=message):
        deploy(api)
    assert api.deleted == ["demo"]


def test_masters_that_no_node_takes_are_waited_for_and_then_given_up() -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no CPU"}
    api, told = ApiOfTest({}, [{"metadata": {"name": "demo-1"}, "status": {"conditions": [unscheduled]}}]), []
    with pytest.raises(KubernetesError, match=r"did not serve within 0.01 s"):
        deploy(api, told, timeout_s=0.01)
    assert told == ["waiting: no node takes its pod: Unschedulable: no CPU"]
    assert api.deleted == ["demo"]
