"""The topology of docker-compose.yml: each container runs in separate namespaces, with TLS, secrets and standby
masters.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compose_cluster import ComposeCluster
from job_support import wait_until
from namespaces import Network, require_namespaces
from prometheus_server import require_prometheus
from zookeeper_server import require_zookeeper

#: Shorter than the timeouts of the file, which are meant for loaded machines.
IMPATIENT = {
    "heartbeat.interval": "500 ms",
    "heartbeat.timeout": "4 s",
    "high-availability.zookeeper.client.session-timeout": "5 s",
}

#: A program that runs for some seconds with checkpoints and prints its count at the end.
COUNTING = """
import time
from flinkpy.datastream import StreamExecutionEnvironment

def slowly(number):
    time.sleep(0.005)
    return number

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.enable_checkpointing(500)
numbers = env.from_sequence(1, 3000).map(slowly).key_by(lambda number: number % 7).map(lambda number: number)
with numbers.execute_and_collect() as results:
    print("counted", sum(results))
"""


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeCluster]:
    require_namespaces()
    require_zookeeper()
    with Network(tmp_path_factory.mktemp("compose")) as network:
        cluster = ComposeCluster(network, properties=IMPATIENT)
        cluster.up()
        yield cluster


@pytest.mark.timeout(180)
def test_a_job_of_a_client_in_another_container_runs(compose: ComposeCluster) -> None:
    done = compose.client("run", "/jobs/word_count.py")
    assert done.returncode == 0, done.stderr
    assert "FINISHED" in compose.client("list", "--all").stdout
    printed = "".join(compose.containers[f"taskexecutor-{number}"].log for number in (1, 2))
    assert "(to,13)" in printed


@pytest.mark.timeout(180)
def test_a_client_without_the_secret_or_a_certificate_is_refused(compose: ComposeCluster) -> None:
    no_token = compose.client("list", "-D", "security.token=abc", "-m", "dispatcher-1:6123")
    assert no_token.returncode != 0
    assert "token" in no_token.stderr
    plaintext = compose.client("list", "-D", "security.ssl.internal.enabled=false", "-m", "dispatcher-1:6123")
    assert plaintext.returncode != 0
    assert "Traceback" not in no_token.stderr + plaintext.stderr


@pytest.mark.timeout(180)
def test_prometheus_scrapes_all_services_with_its_certificate(compose: ComposeCluster) -> None:
    require_prometheus()
    services = ["dispatcher-1", "dispatcher-2", "resourcemanager-1", "resourcemanager-2"]
    executors = [process.host.address for name, process in compose.containers.items() if name.startswith("taskexec")]
    with compose.prometheus([*services, *executors]) as ask:
        wait_until(lambda: ask('sum(up{job="flinkpy-services"})') == len(services) + 2, "all services are scraped")
        wait_until(lambda: ask("max(flink_jobmanager_numRegisteredTaskManagers)") == 2, "the leader has two")
        # The rules of the file are loaded, and say that all is well.
        assert ask('count(ALERTS{alertname="FlinkServiceDown"})') is None
    refused = compose.client_code(
        "import ssl, urllib.request\n"
        "context = ssl._create_unverified_context()\n"
        "urllib.request.urlopen('https://dispatcher-1:9249/metrics', context=context, timeout=20)"
    )
    assert refused.returncode != 0
    # The server's alert may still be on its way when the connection is closed.
    refusals = ("certificate required", "EOF occurred in violation of protocol", "Connection reset by peer")
    assert any(each in refused.stderr for each in refusals), f"other hosts need a certificate: {refused.stderr}"


@pytest.mark.chaos
@pytest.mark.timeout(180)
def test_the_loss_of_the_leading_containers_costs_a_job_nothing_but_time(compose: ComposeCluster) -> None:
    dispatcher, resource_manager = compose.leader("dispatcher"), compose.leader("resourcemanager")
    with compose.running_client("run", program=COUNTING) as client:
        wait_until(lambda: "RUNNING" in compose.client("list").stdout, "the job runs")
        for name in (dispatcher, resource_manager):
            compose.containers[name].kill()
        assert compose.leader("dispatcher") != dispatcher
        for name in (dispatcher, resource_manager):
            compose.restart(name)
        status = client.popen.wait(100)
    assert status == 0, client.log[-4000:]
    assert f"counted {sum(range(3001))}" in client.log
    for name in (dispatcher, resource_manager):
        wait_until(lambda name=name: compose.is_healthy(name), f"{name} stands by")
