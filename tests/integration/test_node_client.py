"""A client in another language that uses only the .proto files: Node.js with @grpc/grpc-js."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from clusters import ROOT, RunningCluster, run_flinkpy

from flinkpy.common.configuration import Configuration
from flinkpy.datastream import StreamExecutionEnvironment

pytestmark = pytest.mark.node

SOURCES = Path(__file__).parent / "node_client"
#: Installed packages stay here between runs.
INSTALLED = ROOT / ".data" / "node_client"


@pytest.fixture(scope="module")
def node_client() -> Path:
    """Installs the packages of the program and returns its path."""
    missing = [tool for tool in ("node", "npm") if shutil.which(tool) is None]
    if missing:
        message = f"{' and '.join(missing)} not found: the client in another language is NOT tested"
        if os.environ.get("FLINKPY_REQUIRE_NODE"):
            pytest.fail(message)
        pytest.skip(message)
    INSTALLED.mkdir(parents=True, exist_ok=True)
    manifest = (SOURCES / "package.json").read_text()
    stamp = INSTALLED / "installed.json"
    if not stamp.is_file() or stamp.read_text() != manifest:
        (INSTALLED / "package.json").write_text(manifest)
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
        result = subprocess.run(command, cwd=INSTALLED, capture_output=True, text=True, timeout=100, check=False)
        if result.returncode != 0:
            pytest.fail(f"npm install failed:\n{result.stderr}")
        stamp.write_text(manifest)
    shutil.copy(SOURCES / "client.js", INSTALLED / "client.js")
    return INSTALLED / "client.js"


def environment_of(cluster: RunningCluster) -> dict[str, str]:
    secret = cluster.properties["security.secret-file"]
    printed = run_flinkpy("token", "--role", "submit", "-D", f"security.secret-file={secret}")
    assert printed.returncode == 0, printed.stderr
    return {**os.environ, "FLINKPY_TOKEN": printed.stdout.strip()}


def node(program: Path, cluster: RunningCluster, *arguments: str) -> list[dict[str, Any]]:
    """Runs the program and returns its output."""
    command = ["node", str(program), cluster.address, str(ROOT / "proto"), *arguments]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=False, env=environment_of(cluster)
    )
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def slowly(value: int) -> int:
    time.sleep(0.002)
    return value


def submit_endless_job(cluster: RunningCluster) -> str:
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(cluster.properties))
    environment.from_sequence(0, 1 << 40).map(slowly).filter(lambda value: False).print()
    return str(environment.execute_async("endless").get_job_id())


def test_the_node_client_lists_follows_and_cancels_a_job(node_client: Path, cluster: RunningCluster) -> None:
    job_id = submit_endless_job(cluster)
    (listing,) = node(node_client, cluster, "list")
    assert [(job["job_id"], job["name"]) for job in listing["jobs"]] == [(job_id, "endless")]

    command = ["node", str(node_client), cluster.address, str(ROOT / "proto"), "follow", job_id]
    seen = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment_of(cluster)) as follower:
        assert follower.stdout is not None
        for line in follower.stdout:
            seen.append(json.loads(line)["status"])
            if seen[-1] == "RUNNING":
                assert node(node_client, cluster, "cancel", job_id) == [{}]
    assert follower.returncode == 0
    assert seen[seen.index("RUNNING") :] == ["RUNNING", "CANCELLING", "CANCELED"]


def test_the_node_client_gets_a_readable_status_for_an_unknown_job(node_client: Path, cluster: RunningCluster) -> None:
    command = ["node", str(node_client), cluster.address, str(ROOT / "proto"), "cancel", "f" * 32]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=False, env=environment_of(cluster)
    )
    assert result.returncode == 1
    assert "f" * 32 in result.stderr
