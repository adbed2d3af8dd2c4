"""The program of an application: ids of its jobs, options it may set, and job listeners."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from flinkpy._proto import job_pb2
from flinkpy.client.application import ApplicationContext, nth_job_id
from flinkpy.client.executor import check_program_configuration
from flinkpy.client.job_listeners import JobListeners
from flinkpy.common.application_report import JobSubmitted
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ApplicationError, ConfigurationError, JobNotFoundError

ID = "0123456789abcdef" * 2


def context(told: list[JobSubmitted] | None = None) -> ApplicationContext:
    return ApplicationContext(ID, "there:1", ([] if told is None else told).append)


def fixed_id(made: ApplicationContext, **entries: str) -> str:
    graph = job_pb2.JobGraph(job_id="f" * 32, name="job")
    made.fix_job_id(graph, Configuration.from_dict(entries))
    return graph.job_id


def test_the_nth_job_has_the_same_id_in_each_run() -> None:
    once, again = ([fixed_id(made) for _ in range(4)] for made in (context(), context()))
    assert once == again
    assert once[0] == ID
    assert len(set(once)) == 4
    assert all(len(job_id) == 32 and set(job_id) <= set("0123456789abcdef") for job_id in once)
    assert nth_job_id(ID, 2) != nth_job_id("f" * 32, 2)


def test_a_configured_id_is_used_for_one_job() -> None:
    """`standalone-job --job-id` sets the option for all jobs of the program."""
    made = context()
    configured = {"$internal.pipeline.job-id": "E" * 32}
    assert fixed_id(made, **configured) == "e" * 32
    assert fixed_id(made, **configured) == nth_job_id(ID, 1)


class _Cluster:
    """A cluster that knows one job."""

    def __init__(self, name: str | None) -> None:
        self._name = name

    def request_job(self, job_id: str) -> job_pb2.JobDetails:
        if self._name is None:
            raise JobNotFoundError(job_id)
        return job_pb2.JobDetails(job_id=job_id, name=self._name)


def test_a_joined_job_must_have_the_same_name() -> None:
    told: list[JobSubmitted] = []
    made, graph = context(told), job_pb2.JobGraph(job_id=ID, name="mine")
    cluster: Any = _Cluster("mine")
    made.join(cluster, graph)
    assert told == [JobSubmitted(ID, "mine")]
    cluster = _Cluster("another")
    with pytest.raises(ApplicationError, match=r"run submitted 'another'.*same jobs in the same order"):
        made.join(cluster, graph)
    cluster = _Cluster(None)
    with pytest.raises(ApplicationError, match="its result has expired"):
        made.join(cluster, graph)
    assert len(told) == 1


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the configuration that the program was started with."""

    def give(**entries: str) -> Configuration:
        lines = {key.replace("__", ".").replace("_", "-"): value for key, value in entries.items()}
        for variable in ("FLINKPY_CONF_DIR", "FLINK_CONF_DIR"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("FLINKPY_DYNAMIC_PROPERTIES", "\n".join(f"{k}={v}" for k, v in lines.items()))
        return Configuration.from_dict(lines)

    return give


def test_a_program_may_set_options_unless_that_is_forbidden(given: Any) -> None:
    configuration = given(pipeline__name="x")
    configuration.set_string("parallelism.default", "3")
    check_program_configuration(configuration)
    # The program cannot lift the restriction itself.
    configuration = given(execution__program_config__enabled="false")
    check_program_configuration(configuration)
    configuration.set_string("execution.program-config.enabled", "true")
    configuration.set_string("parallelism.default", "3")
    with pytest.raises(ConfigurationError) as caught:
        check_program_configuration(configuration)
    for part in ("`parallelism.default`: '3'", "`execution.program-config.enabled`: 'true'", "wildcards"):
        assert part in str(caught.value)


def test_allowed_options_may_be_set_despite_the_restriction(given: Any) -> None:
    configuration = given(
        execution__program_config__enabled="false",
        execution__program_config__wildcards="parallelism.default;pipeline",
        state__backend__type="hashmap",
    )
    configuration.set_string("parallelism.default", "3")
    configuration.set_string("pipeline.name", "mine")
    check_program_configuration(configuration)
    configuration.set_string("pipelines", "no")
    configuration.remove_config("state.backend.type")
    with pytest.raises(ConfigurationError, match=r"`pipelines`: 'no', `state\.backend\.type`: removed"):
        check_program_configuration(configuration)


def test_listeners_are_called_in_order_and_their_errors_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "listeners_of_this_test.py").write_text(
        "told = []\n"
        "class First:\n"
        "    def on_job_submitted(self, client, error): told.append(('submitted', client, error))\n"
        "    def on_job_executed(self, result, error): told.append(('executed', result, error))\n"
        "class Fails:\n"
        "    def on_job_submitted(self, client, error): raise ValueError('a listener')\n"
        "class NeedsMore:\n"
        "    def __init__(self, what): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = "listeners_of_this_test"
    listeners = JobListeners({"execution.job-listeners": f"{module}.Fails;{module}.First"})
    error = RuntimeError("no")
    listeners.on_job_submitted("client", None)
    listeners.on_job_executed(None, error)
    assert sys.modules[module].told == [("submitted", "client", None), ("executed", None, error)]
    assert "Job listener Fails failed in on_job_submitted" in caplog.text
    for bad in (f"{module}.NeedsMore", f"{module}.Nothing", "no_such_module.X", "X"):
        with pytest.raises(ConfigurationError, match=f"cannot create {bad} "):
            JobListeners({"execution.job-listeners": bad})
