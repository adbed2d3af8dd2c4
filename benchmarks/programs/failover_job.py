"""A keyed job on a cluster with standby masters, whose leading masters are killed while it runs at a steady rate.

Killed at once, as the loss of their host does: the leading Dispatcher, the JobMasters it has started and the leading
ResourceManager. Prints one line of JSON per kill: seconds until the first output of a task that was started after it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import uuid
from pathlib import Path

from recovery_job import ROW, Keep, OutputSink, OutputWriter, PacedSource

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "integration")]

from ha_cluster import HaCluster  # noqa: E402 - the kits of the tests: real processes, a real ZooKeeper
from zookeeper_server import ZooKeeperServer  # noqa: E402

TIMEOUT_S = 60


class FreshFiles(OutputSink):
    """A file per life of a task, because a new JobMaster restarts the attempt numbers."""

    def create_writer(self, context):
        return OutputWriter(Path(self._directory, uuid.uuid4().hex))


def wait_until(condition, timeout_s=TIMEOUT_S):
    """Returns the seconds that it took."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > timeout_s:
            raise RuntimeError(f"nothing came within {timeout_s} s")
        time.sleep(0.005)
    return time.monotonic() - begun


def wait_for_checkpoints(client: ClusterClient, job_id: str, more: int) -> None:
    begin = client.request_checkpoint_statistics(job_id).latest_completed.checkpoint_id
    wait_until(lambda: client.request_checkpoint_statistics(job_id).latest_completed.checkpoint_id >= begin + more)


def submit(cluster: HaCluster, output: Path, checkpoints: Path, keys: int, load_rate: int, rate: int) -> str:
    configuration = Configuration()
    settings = {
        **cluster.properties,
        "execution.checkpointing.interval": "2 s",
        "execution.checkpointing.dir": str(checkpoints),
    }
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    stream = env.from_source(PacedSource(keys, load_rate, rate), WatermarkStrategy.no_watermarks(), "paced", ROW)
    kept = stream.key_by(lambda row: row[0], Types.LONG()).process(Keep(), Types.LONG())
    kept.sink_to(FreshFiles(str(output)))
    return str(env.execute_async("failover").get_job_id())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--load-rate", type=int, default=60_000)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--session-timeout", default="2 s")
    parser.add_argument("--kills", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "output")
        output.mkdir()
        zookeeper = ZooKeeperServer(Path(scratch, "zookeeper"))
        zookeeper.start()
        try:
            with HaCluster(zookeeper, Path(scratch), session_timeout=options.session_timeout) as cluster:
                job_id = submit(
                    cluster, output, Path(scratch, "checkpoints"), options.keys, options.load_rate, options.rate
                )
                wait_until(lambda: any(path.stat().st_size for path in output.iterdir()))
                for _ in range(options.kills):
                    wait_for_checkpoints(cluster.client, job_id, 2)
                    former = set(output.iterdir())
                    manager, dispatcher = cluster.leader("resourcemanager"), cluster.leader("dispatcher")
                    cluster.kill_host(dispatcher)
                    cluster.kill(manager)
                    outage_s = wait_until(
                        lambda known=former: any(path not in known and path.stat().st_size for path in output.iterdir())
                    )
                    print(json.dumps({"outage_s": outage_s}), flush=True)
                    cluster.heal()
                cluster.client.cancel_job(job_id)
                cluster.client.wait_for_result(job_id)
        finally:
            zookeeper.kill()


if __name__ == "__main__":
    main()
