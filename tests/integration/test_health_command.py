"""`flinkpy health` on real processes: the results of probes."""

from __future__ import annotations

import subprocess

import pytest
from clusters import RunningCluster, run_flinkpy
from ports import own_port


def health(cluster: RunningCluster, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    properties = {"FLINKPY_DYNAMIC_PROPERTIES": cluster.dynamic_properties}
    return run_flinkpy("health", *arguments, environment={**properties, **environment})


@pytest.mark.parametrize("service", ["dispatcher", "resourcemanager", "taskexecutor"])
def test_a_service_that_serves_is_healthy(shared_cluster: RunningCluster, service: str) -> None:
    process = shared_cluster.service("taskexecutor-1" if service == "taskexecutor" else service)
    assert process.address is not None
    done = health(shared_cluster, "--expect", "leading", service, process.address)
    assert (done.returncode, done.stdout) == (0, f"{service} at {process.address}: serving\n"), done.stderr


def test_environment_and_configuration_select_the_service_to_check(shared_cluster: RunningCluster) -> None:
    assert health(shared_cluster, "dispatcher").returncode == 0
    done = health(
        shared_cluster,
        FLINKPY_HEALTH_SERVICE="resourcemanager",
        FLINKPY_HEALTH_ADDRESS=shared_cluster.resource_manager_address,
    )
    assert done.returncode == 0, done.stderr


def test_a_process_of_another_service_is_not_ready(shared_cluster: RunningCluster) -> None:
    done = health(shared_cluster, "taskexecutor", shared_cluster.address)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_an_unreachable_service_is_reported_as_unhealthy_quickly(shared_cluster: RunningCluster) -> None:
    done = health(shared_cluster, "--timeout", "1", "dispatcher", f"127.0.0.1:{own_port()}")
    assert done.returncode == 1
    assert "does not answer" in done.stderr


def test_nothing_is_reported_without_a_valid_token(shared_cluster: RunningCluster) -> None:
    done = health(shared_cluster, "-D", "security.token=wrong", "dispatcher", shared_cluster.address)
    assert done.returncode not in (0, 1)
    assert "token" in done.stderr
    assert "Traceback" not in done.stderr
