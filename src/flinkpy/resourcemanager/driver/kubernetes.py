"""KubernetesResourceManagerDriver: workers are pods, which this driver creates and deletes.

The pods of a cluster outlive a ResourceManager: the next one finds them by their labels and takes them over. They end
with the Deployment that has the name of the cluster, if there is one, or when they are released.

| event                                    | what happens                                                             |
|------------------------------------------|--------------------------------------------------------------------------|
| the answer to a creation is lost         | the call is repeated under the same name; that it exists is success      |
| the API server is away                   | creations fail and are tried again; running pods are not touched         |
| a watch ends, breaks, or has expired     | the pods are listed again, and those that are gone have ended            |
| a pod of a former ResourceManager        | taken over at the start                                                  |
| a pod that this driver has given up      | deleted                                                                  |

Source: org.apache.flink.kubernetes.KubernetesResourceManagerDriver. Thread: the endpoint's loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import KubernetesError
from flinkpy.common.ids import ResourceID
from flinkpy.configuration.task_executor_process_spec import process_spec
from flinkpy.kubernetes.api_client import KubernetesApi, is_conflict, is_expired
from flinkpy.kubernetes.cluster_objects import owner_reference
from flinkpy.kubernetes.names import selector, task_manager_labels
from flinkpy.kubernetes.pod_parameters import PodParameters, read_task_manager_parameters
from flinkpy.kubernetes.pods import pod_name, task_manager_pod
from flinkpy.kubernetes.worker_pods import PodNews, WorkerDelayed, WorkerEnded, WorkerPods
from flinkpy.resourcemanager.driver.resource_manager_driver import OnWorkerTerminated

logger = logging.getLogger(__name__)

#: The pauses after failed calls: the first one, and the longest one.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0
#: How often a creation is repeated whose answer was lost.
_CREATION_ATTEMPTS = 3


class KubernetesResourceManagerDriver:
    """Creates TaskExecutor pods.

    Args:
        connect: returns a client of the API server.
        parameters: what the pods are made of.
    """

    def __init__(
        self,
        connect: Callable[[], Coroutine[Any, Any, KubernetesApi]],
        parameters: PodParameters,
    ) -> None:
        self._connect = connect
        self._parameters = parameters
        #: The object with which the pods end; None: they stay until they are released.
        self._owner: dict[str, Any] | None = None
        self._selector = selector(task_manager_labels(parameters.cluster_id))
        self._pods = WorkerPods()
        self._api: KubernetesApi | None = None
        self._address = ""
        self._on_worker_terminated: OnWorkerTerminated | None = None
        self._watching: asyncio.Task[None] | None = None
        self._deletions: set[asyncio.Task[None]] = set()

    @property
    def can_start_workers(self) -> bool:
        return True

    def start(self, resource_manager_address: str, on_worker_terminated: OnWorkerTerminated) -> None:
        self._address = resource_manager_address
        self._on_worker_terminated = on_worker_terminated

    async def recover_workers(self) -> list[ResourceID]:
        """Returns the workers of earlier ResourceManagers that live, and begins to watch all of them.

        It waits for the API server as long as that is away.
        """
        self._api = await self._connect()
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                pods, version = await self._api.list("pods", self._selector)
            except KubernetesError as error:
                logger.warning(
                    "cannot list the pods of earlier TaskExecutors, trying again in %g s: %s", pause_s, error
                )
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            break
        self._owner = await _deployment(self._api, self._parameters.cluster_id)
        living, news = self._pods.recovered(pods)
        self._watching = asyncio.get_running_loop().create_task(self._watch(version), name="watch TaskExecutor pods")
        self._handle(news)
        return living

    async def start_worker(self, resource_id: ResourceID) -> None:
        assert self._api is not None, "start_worker is called after recover_workers"
        host, _, port = self._address.rpartition(":")
        settings = {"resourcemanager.rpc.address": host, "resourcemanager.rpc.port": port}
        pod = task_manager_pod(self._parameters, resource_id, settings=settings, owner=self._owner)
        self._pods.requested(resource_id)
        try:
            await self._create(self._api, pod)
        except KubernetesError:
            # It may exist all the same, if the answer was lost.
            self._pods.forget(resource_id)
            self._delete(resource_id)
            raise
        self._pods.created(resource_id)
        logger.info("created pod %s", pod["metadata"]["name"])

    async def stop_worker(self, resource_id: ResourceID) -> None:
        if self._pods.knows(resource_id):
            self._pods.forget(resource_id)
            self._delete(resource_id)

    async def close(self) -> None:
        """Ends the watch and the client. The pods stay: the next ResourceManager needs them."""
        tasks = [*self._deletions, *([] if self._watching is None else [self._watching])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._api is not None:
            await self._api.close()

    async def _create(self, api: KubernetesApi, pod: dict[str, Any]) -> None:
        for attempt in range(1, _CREATION_ATTEMPTS + 1):
            try:
                await api.create("pods", pod)
                return
            except KubernetesError as error:
                if is_conflict(error) and error.details.get("reason") == "AlreadyExists" and attempt > 1:
                    return  # created by an attempt whose answer was lost
                if "status" in error.details or attempt == _CREATION_ATTEMPTS:
                    raise
                await asyncio.sleep(_FIRST_PAUSE_S)

    def _delete(self, resource_id: ResourceID) -> None:
        deletion = asyncio.get_running_loop().create_task(
            self._delete_until_done(pod_name(self._parameters.cluster_id, resource_id)), name=f"delete {resource_id}"
        )
        self._deletions.add(deletion)
        deletion.add_done_callback(self._deletions.discard)

    async def _delete_until_done(self, name: str) -> None:
        assert self._api is not None, "pods are deleted after recover_workers"
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._api.delete("pods", name)
            except KubernetesError as error:
                logger.warning("cannot delete pod %s, trying again in %g s: %s", name, pause_s, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            return

    async def _watch(self, version: str) -> None:
        """Follows the changes of the pods until it is canceled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            assert self._api is not None, "pods are watched after recover_workers"
            try:
                async for event, pod in self._api.watch("pods", self._selector, version):
                    version = pod["metadata"]["resourceVersion"]
                    pause_s = _FIRST_PAUSE_S
                    if event != "BOOKMARK":
                        self._handle(self._pods.changed(event, pod))
                continue  # the server ended the watch after its time
            except KubernetesError as error:
                level = logging.INFO if is_expired(error) else logging.WARNING
                logger.log(level, "%s; listing the pods in %g s", error, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            asked_when = self._pods.created_ids
            try:
                pods, version = await self._api.list("pods", self._selector)
            except KubernetesError as error:
                logger.warning("cannot list the pods of TaskExecutors: %s", error)
                continue
            self._handle(self._pods.listed(pods, asked_when))

    def _handle(self, news: list[PodNews]) -> None:
        for each in news:
            match each:
                case WorkerDelayed():
                    logger.warning("TaskExecutor %s waits: %s", each.resource_id, each.reason)
                case WorkerEnded():
                    logger.warning("TaskExecutor %s: %s", each.resource_id, each.reason)
                    if each.is_left:
                        self._delete(each.resource_id)
                    if self._on_worker_terminated is not None:
                        self._on_worker_terminated(each.resource_id, each.reason)


async def _deployment(api: KubernetesApi, name: str) -> dict[str, Any] | None:
    """Returns an owner reference to the Deployment of the cluster; None if there is none."""
    try:
        found = await api.get("deployments", name)
    except KubernetesError as error:
        logger.warning("TaskExecutor pods have no owner, so they stay when the cluster is deleted: %s", error)
        return None
    if found is None:
        return None
    return owner_reference(found)


def make_kubernetes_driver(configuration: Configuration) -> KubernetesResourceManagerDriver:
    """Returns the driver of the configured cluster. Raises: ConfigurationError."""
    spec = process_spec(configuration)
    parameters = read_task_manager_parameters(configuration, memory_bytes=None if spec is None else spec.total_process)
    return KubernetesResourceManagerDriver(lambda: KubernetesApi.connect(configuration), parameters)
