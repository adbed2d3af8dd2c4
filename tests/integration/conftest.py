"""The fixtures of the tests with real processes. They live in `clusters`, because a conftest is not safely imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import _chromium, dashboard
from clusters import _shared_cluster, _wide_cluster, cluster, shared_cluster, start_cluster, wide_cluster
from engines import _engine_cluster, engine_cluster
from forked_processes import ForkingPopen, process_templates
from groups import SPARK_SESSION, arrange, group_of
from kafka_broker.broker import _mortal_kafka, kafka, own_kafka
from moto_server import aws_endpoint
from namespaces import network
from small_disks import small_disk
from spark_programs import SHARED_SESSION
from zookeeper_server import _zookeeper_ensemble, zookeeper, zookeeper_ensemble

from flinkpy.client import service_process

__all__ = [
    "_chromium",
    "_engine_cluster",
    "_mortal_kafka",
    "_shared_cluster",
    "_wide_cluster",
    "_zookeeper_ensemble",
    "aws_endpoint",
    "cluster",
    "dashboard",
    "engine_cluster",
    "kafka",
    "network",
    "own_kafka",
    "shared_cluster",
    "small_disk",
    "start_cluster",
    "wide_cluster",
    "zookeeper",
    "zookeeper_ensemble",
]

HERE = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def forked_services() -> Iterator[None]:
    """Forks the services that tests start from templates, which saves most of the time that their starts take.

    FLINKPY_TESTS_EXEC=1 starts all of them by exec instead.
    """
    if os.environ.get("FLINKPY_TESTS_EXEC") == "1":
        yield
        return
    with pytest.MonkeyPatch.context() as patch, process_templates():
        patch.setattr(service_process, "start_process", ForkingPopen)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Changes markers before tests are selected by them."""
    ours = [item for item in items if HERE in item.path.parents]
    others = [item for item in items if HERE not in item.path.parents]
    arrange(ours)
    items[:] = others + ours


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends Spark in this process, so that leak checks of other tests find nothing of it."""
    if nextitem is None or HERE not in nextitem.path.parents or group_of(nextitem.nodeid) != SPARK_SESSION:
        SHARED_SESSION.stop()
