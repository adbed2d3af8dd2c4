"""Applications: programs that run in their own cluster of real processes and end it when they end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import application_programs as programs
import httpx
import psutil
import pytest
from application_programs import lines, program
from clusters import run_flinkpy
from ha_cluster import HaCluster
from job_support import wait_until
from ports import own_port
from zookeeper_server import ZooKeeperServer

from flinkpy.client.application import nth_job_id
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.local_cluster import ApplicationCluster, LocalClusterOptions
from flinkpy.client.service_process import ServiceProcess, ServiceSpec, wait_until_ready
from flinkpy.common.errors import ExternalError
from flinkpy.common.process import stop_children
from flinkpy.common.states import JobState
from flinkpy.security import Audience, SecurityContext

ONE = ("--taskmanagers", "1")
APPLICATION = "ab" * 16


@pytest.fixture(autouse=True)
def _own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Checks that no temporary file is left, however the application ended."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    yield
    assert [path.name for path in temporary.iterdir()] == [], "temporary files are left"


def run_application(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_flinkpy("run-application", *ONE, *map(str, arguments), timeout_s=100)


@contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Runs the application in the background. At the end of the block, all its processes must have ended."""
    command = [sys.executable, "-m", "flinkpy.cli.main", "run-application", *ONE, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        services = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.terminate()
        process.communicate(timeout=40)
        _, left = psutil.wait_procs(services, timeout=30)
        assert left == []


def test_every_execute_of_a_program_is_a_job_of_its_cluster(tmp_path: Path) -> None:
    path = program(tmp_path / "app", programs.TWO_JOBS)
    done = run_application("-D", f"cluster.id={APPLICATION}", path, "one", "--two")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["10", "11", "20", "21"]
    assert lines(tmp_path / "app" / "ids") == [nth_job_id(APPLICATION, 0), nth_job_id(APPLICATION, 1)]
    assert lines(tmp_path / "app" / "ids")[0] == APPLICATION
    assert lines(tmp_path / "app" / "arguments") == ["one", "--two"]


def test_an_application_without_a_job_fails_and_says_why(tmp_path: Path) -> None:
    done = run_flinkpy("run", "-t", "local-application", str(program(tmp_path / "app", programs.NO_JOB)), timeout_s=100)
    assert done.returncode == 1
    assert "it did not call execute()" in done.stderr


def test_an_application_exits_with_the_status_of_its_program(tmp_path: Path) -> None:
    done = run_application(program(tmp_path / "app", programs.EXITS_WITH_3))
    assert done.returncode == 3
    assert "exit status 3" in done.stderr


def test_a_main_that_raises_fails_the_application_and_cancels_its_jobs(tmp_path: Path) -> None:
    directory = tmp_path / "app"
    path = program(directory, programs.RAISES_BESIDE_A_JOB)
    (directory / "go").touch()
    done = run_application(path)
    assert done.returncode == 1
    assert done.stderr.count("ValueError: a mistake of its own") == 1
    assert f'File "{path}"' in done.stderr and "flinkpy/cli" not in done.stderr
    assert "not canceled" not in done.stderr


def test_a_failed_job_ends_the_application_even_if_the_program_continues(tmp_path: Path) -> None:
    done = run_application(program(tmp_path / "app", programs.OVERLOOKS_A_FAILURE), "--wait")
    assert done.returncode == 1
    assert "job 'fails'" in done.stderr and "RuntimeError: as it should" in done.stderr
    assert lines(tmp_path / "app" / "overlooked") == ["JobExecutionError"]


def test_a_failed_job_can_be_left_to_the_program_to_handle(tmp_path: Path) -> None:
    option = "execution.terminate-application-on-any-job-terminated-exceptionally=false"
    done = run_application("-D", option, program(tmp_path / "app", programs.OVERLOOKS_A_FAILURE))
    assert done.returncode == 0
    assert lines(tmp_path / "app" / "out") == ["2"]


def test_a_program_may_not_set_options_of_the_cluster(tmp_path: Path) -> None:
    path = program(tmp_path / "app", programs.TWO_JOBS)  # the program sets the parallelism
    guarded = ("run", "-t", "local", "-D", "execution.program-config.enabled=false")
    done = run_flinkpy(*guarded, str(path))
    assert done.returncode == 2
    assert "`parallelism.default`: '1'" in done.stderr and "execution.program-config.wildcards" in done.stderr
    assert done.stdout == ""


def test_sigterm_suspends_the_jobs_and_ctrl_c_cancels_them(tmp_path: Path) -> None:
    for number, (name, status) in enumerate({signal.SIGTERM: 143, signal.SIGINT: 130}.items()):
        directory = tmp_path / f"app-{number}"
        path = program(directory, programs.UNTIL_GATE_OPENS)
        checkpoints = directory / "checkpoints"
        settings = ["-D", f"execution.checkpointing.dir={checkpoints}", "-D", f"cluster.id={APPLICATION}"]
        with started(*settings, path) as process:
            wait_until(lambda there=checkpoints: list(there.glob("*/chk-*/_metadata")), "a checkpoint")
            process.send_signal(name)
            assert process.wait(timeout=40) == status
        # A canceled job has deleted its checkpoints, and a suspended one may resume from them.
        kept = list(checkpoints.glob(f"{APPLICATION}/chk-*/_metadata"))
        assert bool(kept) is (name == signal.SIGTERM)
        assert not (directory / "after").exists()


def test_a_detached_application_runs_without_its_client(tmp_path: Path) -> None:
    directory = tmp_path / "app"
    path = program(directory, programs.ENDS_AT_GATE)
    secret = {"security.secret-file": str(tmp_path / "secret")}
    settings = {"env.log.dir": str(tmp_path / "logs"), **secret}
    done = run_application("-d", *(f"-D{key}={value}" for key, value in settings.items()), path)
    assert done.returncode == 0, done.stderr
    found = re.search(r"Application ([0-9a-f]{32}) runs \(pid (\d+)\): Dispatcher at (\S+)\.", done.stdout)
    assert found is not None
    process = psutil.Process(int(found[2]))
    wait_until((directory / "after first").exists, "the first job has ended")
    security = SecurityContext.of_client(secret)
    with ClusterClient(found[3], security=security) as client:
        url = client.request_cluster_overview().rest_url
    headers = {"authorization": f"Bearer {security.token_for(Audience.DISPATCHER)}"}
    with httpx.Client(base_url=url, headers=headers, timeout=30) as rest:
        (shown,) = rest.get("/applications/overview").json()["applications"]
        assert (shown["id"], shown["name"], shown["status"]) == (found[1], "program.py", "RUNNING")
        assert shown["jobs"]["FINISHED"] == 1
    (directory / "gate").touch()
    process.wait(timeout=40)
    assert lines(directory / "second") == ["3", "4"]
    assert (tmp_path / "logs" / f"application-{found[1]}.log").read_text().split() == ["1", "2", "3", "4"]


class _HighlyAvailable(HaCluster):
    """Two masters of one application."""

    def __init__(self, zookeeper: ZooKeeperServer, directory: Path, path: Path) -> None:
        self._program = path
        super().__init__(zookeeper, directory, dispatchers=2, resource_managers=1, task_executors=1, slots=2)

    def _add_master(self, kind: str, name: str) -> None:
        super()._add_master(kind, name)
        if kind == "dispatcher":
            spec = self._specs[name]
            self._specs[name] = replace(spec, verb="standalone-job", trailing=("--", str(self._program)))

    def job_states(self) -> dict[str, JobState]:
        return {job.name: JobState(job.status) for job in self.client.list_jobs()}

    def wait(self, name: str) -> int:
        """Waits for the end of a master and returns its exit status."""
        return self._processes[name].popen.wait(timeout=60)


def test_a_standby_master_runs_the_program_again_and_its_jobs_continue(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    directory = tmp_path / "app"
    with _HighlyAvailable(zookeeper, tmp_path, program(directory, programs.ENDS_AT_GATE)) as cluster:
        wait_until(lambda: cluster.job_states().get("second") is JobState.RUNNING, "the second job runs")
        leader = cluster.leader("dispatcher")
        cluster.kill(leader)
        other = cluster.leader("dispatcher")
        wait_until(lambda: len(lines(directory / "main")) == 2, "main runs again")
        (directory / "gate").touch()
        assert cluster.wait(other) == 0
        assert lines(directory / "first") == ["1", "2"]
        assert lines(directory / "second") == ["3", "4"]
        assert len(set(lines(directory / "main"))) == 2
        # The program has ended, whichever Dispatcher leads: the restarted one reports it.
        cluster.start(leader)
        assert cluster.wait(leader) == 0
        assert len(lines(directory / "main")) == 2


class _Standalone:
    """A cluster whose Dispatcher and program can be killed and started again."""

    def __init__(self, tmp_path: Path, path: Path, **properties: str) -> None:
        self._local = ApplicationCluster(
            LocalClusterOptions(
                num_task_executors=1,
                properties={
                    "process.jobmanager.working-dir": str(tmp_path / "work"),
                    "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
                    "taskmanager.numberOfTaskSlots": "2",
                    **properties,
                },
                temporary_dir=tmp_path / "tmp" / "cluster",
                restart_services=True,
            ),
            str(path),
            (),
        )
        self._local.start()
        self.process = self._local.processes[0]

    @property
    def security(self) -> SecurityContext:
        return self._local.security

    @property
    def secret_file(self) -> Path:
        return self._local.secret_file

    def running_jobs(self) -> list[str]:
        assert self.process.address is not None
        with ClusterClient(self.process.address, security=self.security) as client:
            return [job.name for job in client.list_jobs() if JobState(job.status) is JobState.RUNNING]

    def kill_and_restart(self) -> None:
        children = psutil.Process(self.process.popen.pid).children(recursive=True)
        self.process.popen.kill()
        self.process.popen.wait()
        psutil.wait_procs(children, timeout=20)
        self.process.close()
        self.process = ServiceProcess(self.process.spec)
        wait_until_ready([self.process], 60)

    def close(self) -> None:
        self.process.popen.terminate()
        self.process.popen.wait(timeout=40)
        self.process.close()
        self._local.stop()


def test_after_a_failover_the_program_joins_running_jobs_and_does_not_repeat_finished_ones(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "app"
    path = program(directory, programs.ENDS_AT_GATE)
    # Tasks that go on without their JobMaster could pass the gate before they end.
    cluster = _Standalone(tmp_path, path, **{"jobmaster.task-adoption.timeout": "0"})
    try:
        wait_until((directory / "after first").exists, "the first job has ended")
        wait_until(lambda: cluster.running_jobs() == ["second"], "the second job runs")
        cluster.kill_and_restart()
        wait_until(lambda: len(lines(directory / "main")) == 2, "main runs again")
        (directory / "gate").touch()
        assert cluster.process.popen.wait(timeout=60) == 0
        # Main ran twice, each job once.
        assert (directory / "after first").read_text().count("\n") == 2
        assert (directory / "after second").read_text().count("\n") == 1
        assert lines(directory / "first") == ["1", "2"]
        assert lines(directory / "second") == ["3", "4"]
        # After another restart the application has ended, so neither main nor a job runs.
        cluster.process = ServiceProcess(cluster.process.spec)
        assert cluster.process.popen.wait(timeout=60) == 0
        assert len(lines(directory / "main")) == 2
        assert "has already ended as FINISHED and does not run again" in capfd.readouterr().err
        # Another program of the same cluster would find the jobs of the first and take them for its own.
        path.write_text(path.read_text() + "\n# another version\n")
        cluster.process = ServiceProcess(cluster.process.spec)
        with pytest.raises(ExternalError, match="belongs to another application"):
            wait_until_ready([cluster.process], 60)
        assert cluster.process.popen.wait(timeout=60) == 2
    finally:
        cluster.close()


def test_a_cluster_may_outlive_its_application_to_report_its_result(tmp_path: Path) -> None:
    path = program(tmp_path / "app", programs.EXITS_WITH_3)
    cluster = _Standalone(tmp_path, path, **{"execution.shutdown-on-application-finish": "false"})
    try:
        assert cluster.process.address is not None
        with ClusterClient(cluster.process.address, security=cluster.security) as client:
            job = wait_until(client.list_jobs, "the job")[0]
            assert JobState(client.wait_for_result(job.job_id).status) is JobState.FINISHED
            pid = int(lines(tmp_path / "app" / "main")[0])
            wait_until(lambda: not psutil.pid_exists(pid), "the program has ended")
            assert client.list_jobs() != []
        cluster.process.popen.terminate()
        assert cluster.process.popen.wait(timeout=40) == 3
    finally:
        cluster.close()


def test_a_program_whose_process_is_killed_fails_the_application(tmp_path: Path) -> None:
    directory = tmp_path / "app"
    cluster = _Standalone(tmp_path, program(directory, programs.RAISES_BESIDE_A_JOB))
    try:
        pid = int(wait_until(lambda: lines(directory / "main"), "main runs")[0])
        os.kill(pid, signal.SIGKILL)
        assert cluster.process.popen.wait(timeout=40) == 1
    finally:
        cluster.close()


def test_a_program_that_fails_before_its_first_job_is_shown_as_failed(tmp_path: Path) -> None:
    settings = {
        "execution.shutdown-on-application-finish": "false",
        "execution.submit-failed-job-on-application-error": "true",
        "cluster.id": APPLICATION,
    }
    cluster = _Standalone(tmp_path, program(tmp_path / "app", "raise KeyError('a mistake')"), **settings)
    try:
        assert cluster.process.address is not None
        with ClusterClient(cluster.process.address, security=cluster.security) as client:
            shown = wait_until(client.list_jobs, "the failed job")
            assert [(job.job_id, job.name, JobState(job.status)) for job in shown] == [
                (APPLICATION, "program.py", JobState.FAILED)
            ]
            failure = client.request_job(APPLICATION).exception_history[0].error
            assert "KeyError: 'a mistake'" in failure.message and "program.py" in failure.traceback
    finally:
        cluster.close()


def test_a_job_ends_with_its_client_if_configured(tmp_path: Path) -> None:
    directory = tmp_path / "app"
    path = program(directory, programs.UNTIL_GATE_OPENS)
    checkpoints = directory / "checkpoints"
    cluster = _Standalone(tmp_path, program(tmp_path / "host", programs.RAISES_BESIDE_A_JOB))
    try:
        assert cluster.process.address is not None
        command = [sys.executable, "-m", "flinkpy.cli.main", "run", "-m", cluster.process.address]
        for key, value in {
            "execution.shutdown-on-attached-exit": "true",
            "execution.checkpointing.dir": str(checkpoints),
            "security.secret-file": str(cluster.secret_file),
        }.items():
            command += ["-D", f"{key}={value}"]
        client = subprocess.Popen([*command, str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: list(checkpoints.glob("*/chk-*/_metadata")), "a checkpoint")
        client.terminate()
        assert client.wait(timeout=40) == 143
        wait_until(lambda: cluster.running_jobs() == ["endless"], "only the application's own job runs")
        assert list(checkpoints.glob("*/chk-*/_metadata")) == []
    finally:
        cluster.close()


def test_external_task_executors_can_join_an_application(tmp_path: Path) -> None:
    directory = tmp_path / "app"
    port = str(own_port())
    properties = {"security.secret-file": str(tmp_path / "secret"), "heartbeat.interval": "500 ms"}
    master = ServiceProcess(
        ServiceSpec(
            "master",
            "standalone-job",
            ("--port", "0", "--resourcemanager-port", port),
            properties=properties,
            trailing=("--", str(program(directory, programs.TWO_JOBS))),
        )
    )
    wait_until_ready([master], 60)
    worker = ServiceProcess(
        ServiceSpec("worker", "taskexecutor", ("--resourcemanager", f"127.0.0.1:{port}"), properties=properties)
    )
    try:
        assert master.popen.wait(timeout=60) == 0
        assert lines(directory / "out-1") + lines(directory / "out-2") == ["10", "11", "20", "21"]
        assert worker.popen.poll() is None
    finally:
        stop_children([master.popen, worker.popen], 10.0)
        for process in (master, worker):
            process.close()
