"""The driver of pods, with an API server that answers as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from flinkpy.common.errors import KubernetesError
from flinkpy.common.ids import ResourceID
from flinkpy.kubernetes.names import LABEL_RESOURCE_ID
from flinkpy.kubernetes.pod_parameters import read_task_manager_parameters
from flinkpy.resourcemanager.driver.kubernetes import KubernetesResourceManagerDriver

EXPIRED = KubernetesError("Kubernetes refuses: too old resource version: 7 (9)", details={"status": "410"})
OPTIONS = {"kubernetes.cluster-id": "demo", "kubernetes.container.image.ref": "image"}


def pod(name: str) -> dict[str, Any]:
    metadata = {"name": f"demo-taskmanager-{name}", "labels": {LABEL_RESOURCE_ID: name}, "resourceVersion": "7"}
    return {"metadata": metadata, "status": {"phase": "Running"}}


class ApiOfTest:
    """Lists the pods of `listed`, one answer after the other, and ends each watch with the next of `watches`."""

    def __init__(self, listed: list[list[dict[str, Any]]], watches: list[KubernetesError]) -> None:
        self._listed = listed
        self._watches = watches
        self.watched_from: list[str] = []
        self.deleted: list[str] = []

    async def list(self, kind: str, label_selector: str) -> tuple[list[dict[str, Any]], str]:
        return self._listed.pop(0), str(9 - len(self._listed))

    async def watch(self, kind: str, label_selector: str, version: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        self.watched_from.append(version)
        if self._watches:
            raise self._watches.pop(0)
        await asyncio.Event().wait()
        yield "BOOKMARK", {}

    async def get(self, kind: str, name: str) -> None:
        return None

    async def delete(self, kind: str, name: str) -> bool:
        self.deleted.append(name)
        return True

    async def close(self) -> None:
        pass


def test_after_an_expired_watch_the_pods_are_listed_and_those_that_are_gone_have_ended() -> None:
    async def scenario() -> None:
        api = ApiOfTest([[pod("a"), pod("b")], [pod("b")]], [EXPIRED])

        async def connect() -> Any:
            return api

        ended: asyncio.Queue[tuple[ResourceID, str]] = asyncio.Queue()
        driver = KubernetesResourceManagerDriver(connect, read_task_manager_parameters(OPTIONS, memory_bytes=None))
        driver.start("host:6124", lambda *news: ended.put_nowait(news))
        assert await driver.recover_workers() == [ResourceID("a"), ResourceID("b")]
        assert await ended.get() == (ResourceID("a"), "its pod was deleted")
        await asyncio.sleep(0)
        assert api.watched_from == ["8", "9"]
        assert api.deleted == []
        await driver.close()

    asyncio.run(scenario())


def test_a_worker_that_is_stopped_is_deleted_until_the_server_has_done_it() -> None:
    async def scenario() -> None:
        api = ApiOfTest([[pod("a")]], [])
        failures = [KubernetesError("the API server does not answer")]
        done = asyncio.Event()

        async def delete(kind: str, name: str) -> bool:
            if failures:
                raise failures.pop()
            done.set()
            return True

        api.delete = delete  # type: ignore[method-assign]

        async def connect() -> Any:
            return api

        driver = KubernetesResourceManagerDriver(connect, read_task_manager_parameters(OPTIONS, memory_bytes=None))
        driver.start("host:6124", lambda *_: None)
        await driver.recover_workers()
        await driver.stop_worker(ResourceID("a"))
        await done.wait()
        await driver.close()

    asyncio.run(scenario())
