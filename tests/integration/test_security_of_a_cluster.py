"""Security of a cluster with the default configuration: its ports, its secret, and the data that it unpickles."""

from __future__ import annotations

import http
import http.client
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import psutil
import pytest
from clusters import RunningCluster, run_flinkpy, running_cluster
from job_support import Gate, environment, wait_until

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.addresses import is_loopback
from flinkpy.common.errors import AuthenticationError, AuthorizationError, JobNotFoundError
from flinkpy.rpc.security import open_channel
from flinkpy.rpc.services import service_methods
from flinkpy.security import Audience, Role, SecurityContext
from flinkpy.security.access_token import CLOCK_SKEW_S

PASSWORD = "correct-horse-battery-staple"
CONFIGURATION = {
    # The password has no effect without TLS, but must stay confidential too.
    "security.ssl.internal.keystore-password": PASSWORD,
    "s3.secret-key": PASSWORD,
}
#: A module that runs at the start of every Python process of the cluster. Processes that serve all jobs must unpickle
#: nothing.
WATCH_UNPICKLING = """
import os, sys, traceback

if {"dispatcher", "resourcemanager"} & set(sys.orig_argv):
    def watch(event, arguments):
        # JobMasters are forked from a Dispatcher's child, with this in them; they are of one job and may.
        if event in ("pickle.find_class", "marshal.loads.pickle") and "jobmaster" not in sys.orig_argv:
            with open(os.path.join(os.environ["UNPICKLED_DIR"], str(os.getpid())), "a") as file:
                file.write(f"{sys.orig_argv[3]}: {arguments}\\n" + "".join(traceback.format_stack(limit=8)))

    sys.addaudithook(watch)
    open(os.path.join(os.environ["UNPICKLED_DIR"], f"watched-{os.getpid()}"), "w").close()
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[RunningCluster]:
    (directory / "watch").mkdir()
    (directory / "unpickled").mkdir()
    (directory / "watch" / "sitecustomize.py").write_text(WATCH_UNPICKLING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(directory / "watch"))
        patch.setenv("UNPICKLED_DIR", str(directory / "unpickled"))
        # Services must ignore the token of a client.
        patch.setenv("FLINKPY_TOKEN", PASSWORD)
        with running_cluster(directory, properties=CONFIGURATION) as running:
            patch.undo()
            yield running


def processes_of(cluster: RunningCluster) -> list[psutil.Process]:
    services = [process.popen.pid for process in (*cluster.task_executors, cluster.service("dispatcher"))]
    services.append(cluster.service("resourcemanager").popen.pid)
    found = [psutil.Process(pid) for pid in services]
    return found + [child for process in found for child in process.children(recursive=True)]


def listening(processes: list[psutil.Process]) -> set[tuple[str, int]]:
    """Returns the addresses and ports that the processes listen on, over IPv4 and IPv6, as the kernel reports them."""
    inodes = set()
    for process in processes:
        for name in os.listdir(f"/proc/{process.pid}/fd"):
            target = os.readlink(f"/proc/{process.pid}/fd/{name}")
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    addresses = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                host, port = fields[1].split(":")
                words = bytes.fromhex(host)
                packed = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
                # gRPC has one socket for both families.
                addresses.add((socket.inet_ntop(family, packed).removeprefix("::ffff:"), int(port, 16)))
    return addresses


@pytest.fixture
def job(cluster: RunningCluster, tmp_path: Path) -> Iterator[str]:
    """Runs a job, so that a JobMaster and a connection between TaskExecutors exist."""
    gate = Gate(tmp_path)
    env = environment(cluster, 2)
    env.from_sequence(1, 10).key_by(lambda x: x % 2).map(gate.pass_at(5)).print()
    client = env.execute_async("waits")
    gate.wait_for_arrival()
    yield str(client.get_job_id())
    gate.open()
    client.get_job_execution_result().result()


def test_all_ports_of_all_processes_are_on_the_loopback(cluster: RunningCluster, job: str) -> None:
    processes = processes_of(cluster)
    assert any("jobmaster" in process.cmdline() for process in processes)
    addresses = listening(processes)
    # Each TaskExecutor has two ports. The Dispatcher, the ResourceManager and each JobMaster have one.
    assert len(addresses) >= 2 * 2 + 3
    assert [address for address in addresses if not is_loopback(address[0])] == []
    assert {cluster.address, cluster.resource_manager_address} <= {f"{host}:{port}" for host, port in addresses}


def bomb_job(cluster: RunningCluster, canary: Path) -> job_pb2.JobGraph:
    env = environment(cluster, 1)
    path = str(canary)

    class Explodes:
        def __call__(self, value: int) -> int:
            return value

        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (path,)

    bomb = Explodes()
    env.from_sequence(1, 2).map(lambda value: bomb(value) if bomb else value).print()
    return env.generate_job_graph("bomb")


def calls_of_everybody(
    address: str, security: SecurityContext
) -> Iterator[tuple[str, Callable[[bytes, str | None], grpc.StatusCode]]]:
    with open_channel(address, [], security) as channel:
        for service in ("Dispatcher", "BlobServer", "ResourceManager", "JobMaster", "TaskExecutor"):
            for method in service_methods(service).values():

                def call(content: bytes, token: str | None, path: str = method.path) -> grpc.StatusCode:
                    metadata = () if token is None else (("authorization", f"Bearer {token}"),)
                    answers = channel.stream_stream(path)(iter([content]), metadata=metadata, timeout=10)
                    with pytest.raises(grpc.RpcError) as raised:
                        list(answers)
                    code: grpc.StatusCode = raised.value.code()
                    return code

                yield method.path, call


def test_a_pickle_bomb_sent_without_a_token_is_never_unpickled(
    cluster: RunningCluster, job: str, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    graph = bomb_job(cluster, canary)
    assert not canary.exists()
    contents = [dispatcher_pb2.SubmitJobRequest(job_graph=graph).SerializeToString(), graph.SerializeToString()]
    contents.append(pickle.dumps((os.mkdir, str(canary))))
    ports = [f"{host}:{port}" for host, port in listening(processes_of(cluster))]
    data = {process.data_address for process in cluster.task_executors}
    rest = urlsplit(cluster.client.request_cluster_overview().rest_url)
    assert rest.netloc in ports, "the port of the REST server is one of them"
    for address in ports:
        if address in data or address == rest.netloc:
            continue
        for path, call in calls_of_everybody(address, cluster.security):
            for token in (None, "0" * 64):
                assert call(contents[0], token) is grpc.StatusCode.UNAUTHENTICATED, (address, path)
    for token in (None, "0" * 64):
        for content in contents:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            with closing(http.client.HTTPConnection(rest.netloc, timeout=10)) as connection:
                connection.request("POST", "/jars/upload", content, headers)
                assert connection.getresponse().status == http.HTTPStatus.UNAUTHORIZED
    for address in ports:  # including those of the data plane
        host, _, port = address.rpartition(":")
        for content in (*contents, *(len(one).to_bytes(4, "big") + one for one in contents)):
            with suppress(ConnectionError), socket.create_connection((host, int(port)), timeout=10) as connection:
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
    assert not canary.exists()


def test_a_pickle_bomb_of_an_authorized_client_is_unpickled_in_its_task(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    """Proves that the test above would notice an unpickled bomb."""
    canary = tmp_path / "canary"
    client = cluster.client
    client.submit_job(bomb_job(cluster, canary))
    wait_until(canary.exists, "the bomb is unpickled")


def test_a_client_without_a_token_or_with_a_read_token_gets_a_clear_error(cluster: RunningCluster, job: str) -> None:
    with (
        pytest.raises(AuthenticationError, match=r"security.secret-file.*flinkpy token"),
        ClusterClient(cluster.address, security=SecurityContext(None, None)) as nobody,
    ):
        nobody.list_jobs()
    printed = run_flinkpy("token", *_secret_of(cluster)).stdout.strip()
    with ClusterClient(cluster.address, security=SecurityContext.of_token(printed)) as reader:
        assert job in [one.job_id for one in reader.list_jobs()]
        assert reader.request_job(job).job_id == job
        with pytest.raises(AuthorizationError, match="role read, the call requires submit"):
            reader.cancel_job(job)
        with pytest.raises(AuthorizationError):
            reader.put_blob(b"code")
        with pytest.raises(JobNotFoundError):
            reader.request_job("f" * 32)


def test_the_command_line_accepts_a_token_instead_of_the_secret(
    cluster: RunningCluster, job: str, tmp_path: Path
) -> None:
    secret = cluster.properties["security.secret-file"]
    printed = run_flinkpy("token", "--role", "read", "-D", f"security.secret-file={secret}")
    assert (printed.returncode, printed.stderr) == (0, "")
    file = tmp_path / "token"
    file.write_text(printed.stdout)
    only_token = ["-m", cluster.address, "-D", f"security.token-file={file}"]
    assert job in run_flinkpy("list", *only_token).stdout
    refused = run_flinkpy("cancel", *only_token, job)
    assert refused.returncode == 2 and "requires submit" in refused.stderr and "Traceback" not in refused.stderr
    wrong = run_flinkpy("list", "-m", cluster.address, environment={"FLINKPY_TOKEN": "0" * 64})
    assert wrong.returncode == 2 and "flinkpy token" in wrong.stderr and "0" * 64 not in wrong.stderr
    assert cluster.security.secret is not None
    authority = printed.stdout.strip().rpartition(".")[2]
    for audience, expires_s, said in (
        (Audience.DISPATCHER, time.time() - CLOCK_SKEW_S - 60, "expired"),
        (Audience.TASK_EXECUTOR, time.time() + 60, "is for a taskexecutor, but this process is a dispatcher"),
    ):
        token = f"{cluster.security.secret.token(Role.READ, audience, int(expires_s))}.{authority}"
        refused = run_flinkpy("list", "-m", cluster.address, environment={"FLINKPY_TOKEN": token})
        assert refused.returncode == 2 and said in refused.stderr and "Traceback" not in refused.stderr


def test_secrets_tokens_and_passwords_are_shown_nowhere(cluster: RunningCluster, job: str, directory: Path) -> None:
    secret = Path(cluster.properties["security.secret-file"]).read_text().strip()
    hidden = [secret, PASSWORD, *(f"fp1.{role.label}." for role in Role)]
    seen: dict[str, str] = {}
    for process in processes_of(cluster):
        with suppress(FileNotFoundError, ProcessLookupError):  # the process has ended since it was listed
            for name in ("cmdline", "environ"):
                content = Path(f"/proc/{process.pid}/{name}").read_bytes()
                seen[f"{process.pid} {name}"] = content.decode(errors="replace")
    for log in directory.rglob("*.log"):
        seen[str(log)] = log.read_text(errors="replace")
    assert any("taskexecutor-1.log" in name for name in seen) and len(seen) > 10
    seen["flinkpy info"] = str(run_flinkpy("info", "-m", cluster.address, *_secret_of(cluster), job))
    details = cluster.client.request_job(job)
    seen["job details"] = str(details)
    seen["cluster overview"] = str(cluster.client.request_cluster_overview())
    shown = {name for name, text in seen.items() for one in hidden if one in text}
    assert shown == set()


def _secret_of(cluster: RunningCluster) -> list[str]:
    return ["-D", f"security.secret-file={cluster.properties['security.secret-file']}"]


def test_the_environment_of_user_code_contains_no_token(cluster: RunningCluster) -> None:
    def environment_of_task(_: int) -> str:
        return repr(sorted(os.environ.items()))

    env = environment(cluster, 1)
    (found,) = env.from_sequence(1, 1).map(environment_of_task).execute_and_collect()
    assert PASSWORD not in found and "fp1." not in found
    assert "FLINKPY_TOKEN" not in found


def test_files_of_the_cluster_are_private_and_files_of_functions_keep_the_users_mode(
    cluster: RunningCluster, directory: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def mode_of_a_file(number: int) -> int:
        path = tmp_path / f"result-{number}"
        path.write_text("for all")
        return path.stat().st_mode & 0o777

    env = environment(cluster, 1)
    (mode,) = env.from_sequence(1, 1).map(mode_of_a_file).execute_and_collect()
    umask = os.umask(0)
    os.umask(umask)
    assert mode == 0o666 & ~umask
    # At the end, because this job takes all slots.
    job: str = request.getfixturevalue("job")
    of_the_test = (directory / "watch", directory / "unpickled")
    files = [path for path in directory.rglob("*") if path.is_file() and not set(path.parents) & set(of_the_test)]
    assert any(job in str(path) for path in files)
    assert any(path.suffix == ".log" for path in files)
    assert [str(path) for path in files if is_readable_by_others(path, directory)] == []


def is_readable_by_others(path: Path, directory: Path) -> bool:
    """True if another user can reach and read the file from inside `directory`. A file that is gone cannot be read."""
    ways = [parent for parent in path.parents if parent != directory and parent.is_relative_to(directory)]
    try:
        return path.stat().st_mode & 0o044 > 0 and all(way.stat().st_mode & 0o011 for way in ways)
    except FileNotFoundError:  # The running job replaces its checkpoints.
        return False


def test_many_silent_connections_lock_nobody_out(cluster: RunningCluster) -> None:
    host, _, port = cluster.address.rpartition(":")
    idle = [socket.create_connection((host, int(port)), timeout=10) for _ in range(300)]
    try:
        idle[0].sendall(b"PRI * HTTP/2.0\r\n")  # one of them is a slow client
        assert cluster.client.request_cluster_overview().num_task_managers == 2
    finally:
        for connection in idle:
            connection.close()


def test_a_task_executor_with_another_secret_is_refused_and_logs_why(cluster: RunningCluster, tmp_path: Path) -> None:
    arguments = ["taskexecutor", "--resourcemanager", cluster.resource_manager_address, "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "flinkpy.cli.main", *arguments, "-D", f"security.secret-file={tmp_path / 'other'}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "has not proved that it belongs to this cluster" in line:
                break
        else:
            pytest.fail("it ended without a word")
        assert cluster.client.request_cluster_overview().num_task_managers == 2
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.parametrize("verb", ["dispatcher", "resourcemanager", "taskexecutor"])
def test_a_service_with_an_unsafe_secret_file_does_not_start(verb: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("ab" * 32)
    file.chmod(0o644)
    manager = [] if verb == "resourcemanager" else ["--resourcemanager", "localhost:1"]
    done = run_flinkpy(verb, "--port", "0", *manager, f"-Dsecurity.secret-file={file}")
    assert done.returncode == 2
    assert f"the cluster secret {file} can be read or written by others" in done.stderr
    assert "Traceback" not in done.stderr and "abab" not in done.stderr


def test_processes_that_serve_all_jobs_unpickle_nothing(cluster: RunningCluster, directory: Path) -> None:
    """This test is last, so that it covers all that the tests above did."""
    notes = sorted((directory / "unpickled").iterdir())
    assert len([note for note in notes if note.name.startswith("watched-")]) >= 2
    assert [note.read_text() for note in notes if not note.name.startswith("watched-")] == []
