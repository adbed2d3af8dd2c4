"""KubernetesClusterDescriptor: creates the objects of a cluster, waits for its masters, and deletes it.

The Deployment is created first and owns the other objects, so whatever else fails, deleting it deletes all.

Source: org.apache.flink.kubernetes.KubernetesClusterDescriptor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from flinkpy.common.errors import KubernetesError
from flinkpy.kubernetes.api_client import KubernetesApi, is_conflict
from flinkpy.kubernetes.cluster_objects import ClusterObjects, owner_reference
from flinkpy.kubernetes.names import job_manager_labels, selector
from flinkpy.kubernetes.pod_parameters import Manifest
from flinkpy.kubernetes.pod_troubles import delay_of, trouble_of

_PAUSE_S = 0.25


class KubernetesClusterDescriptor:
    """Args:
    api: the API server. It stays open.
    tell: shows a line about what a deployment waits for.
    """

    def __init__(self, api: KubernetesApi, tell: Callable[[str], None]) -> None:
        self._api = api
        self._tell = tell

    async def deploy(self, objects: ClusterObjects, timeout_s: float) -> None:
        """Creates a cluster and returns when its masters serve. After an error, the cluster is deleted.

        Raises:
            KubernetesError: the cluster exists, or the server refuses an object, or a pod cannot start, or the masters
                do not serve within `timeout_s`.
        """
        name = objects.deployment["metadata"]["name"]
        try:
            created = await self._api.create("deployments", objects.deployment)
        except KubernetesError as error:
            if is_conflict(error):
                raise KubernetesError(
                    f"the cluster {name} already exists in namespace {self._api.namespace}: choose another "
                    f"`kubernetes.cluster-id`, or stop it first",
                    details=error.details,
                ) from error
            raise
        try:
            owner = owner_reference(created)
            for kind, manifest in objects.owned:
                await self._api.create(
                    kind, {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}
                )
            await asyncio.wait_for(self._wait_until_ready(name), timeout_s)
        except TimeoutError:
            await self.stop(name)
            raise KubernetesError(f"the masters of cluster {name} did not serve within {timeout_s:g} s") from None
        except BaseException:
            await self.stop(name)
            raise

    async def stop(self, cluster_id: str) -> bool:
        """Deletes a cluster: its Deployment, and all that this owns. Returns False if there is none.

        Raises:
            KubernetesError: the call failed.
        """
        return await self._api.delete("deployments", cluster_id)

    async def _wait_until_ready(self, name: str) -> None:
        told = ""
        while True:
            deployment = await self._api.get("deployments", name)
            if deployment is None:
                raise KubernetesError(f"somebody has deleted the cluster {name}")
            status = deployment.get("status") or {}
            if status.get("readyReplicas"):
                return
            if refused := _refusal_of(status):
                raise KubernetesError(f"Kubernetes makes no pod for the masters of {name}: {refused}")
            pods, _ = await self._api.list("pods", selector(job_manager_labels(name)))
            for pod in pods:
                if trouble := trouble_of(pod):
                    raise KubernetesError(f"the masters of cluster {name} do not run: {trouble}")
                if (delay := delay_of(pod)) and delay != told:
                    told = delay
                    self._tell(f"waiting: {delay}")
            await asyncio.sleep(_PAUSE_S)


def _refusal_of(status: Manifest) -> str:
    """Returns why no pod can be created: a quota, or the security standard of the namespace."""
    for condition in status.get("conditions") or []:
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return str(condition.get("message") or condition.get("reason") or "no reason given")
    return ""
