"""The configuration of Spark follows from the options of a job."""

from __future__ import annotations

import sys

import pytest

from flinkpy.common.errors import ConfigurationError
from flinkpy.spark.settings import driver_defaults, dynamic_allocation_defaults, settings_of

MASTER = "execution.batch.spark.master"


def test_a_local_master_listens_on_loopback_and_runs_this_python() -> None:
    settings = settings_of({})
    assert settings.is_local and settings.master.startswith("local[")
    assert settings.conf["spark.driver.bindAddress"] == settings.conf["spark.driver.host"] == "127.0.0.1"
    assert settings.conf["spark.pyspark.python"] == sys.executable
    assert settings.conf["spark.ui.enabled"] == "false"
    assert settings.conf["spark.authenticate"] == "true"
    assert settings.conf["spark.python.sql.dataFrameDebugging.enabled"] == "false", "it is most of a translation's time"


def test_our_daemon_forks_workers_that_have_this_python() -> None:
    conf = "execution.batch.spark.conf.spark."
    key = "spark.python.daemon.module"
    assert settings_of({}).conf[key] == "flinkpy.spark.worker_daemon"
    assert settings_of({f"{conf}python.daemon.module": "pyspark.daemon"}).conf[key] == "pyspark.daemon"
    assert key not in settings_of({f"{conf}pyspark.python": "/usr/bin/python3.9"}).conf, "it may not have flinkpy"
    assert key not in settings_of({MASTER: "spark://host:7077"}).conf, "it is sent there when workers run already"
    assert key not in settings_of({MASTER: "sc://host"}).conf


@pytest.mark.parametrize(
    "master", ["spark://host:7077", "spark://one:7077,two:7077", "yarn", "k8s://https://host:6443"]
)
def test_clusters_get_the_options_of_the_job_unchanged(master: str) -> None:
    conf = "execution.batch.spark.conf."
    settings = settings_of(
        {
            MASTER: master,
            f"{conf}spark.kubernetes.container.image": "flinkpy:1",
            f"{conf}spark.yarn.queue": "nightly",
            f"{conf}spark.sql.session.timeZone": "Europe/Berlin",
        }
    )
    assert settings.master == master and not settings.is_local and not settings.is_connect
    assert settings.conf["spark.kubernetes.container.image"] == "flinkpy:1"
    assert settings.conf["spark.yarn.queue"] == "nightly"
    assert settings.conf["spark.sql.session.timeZone"] == "Europe/Berlin", "what a job sets comes first"
    assert "spark.driver.host" not in settings.conf


def test_a_connect_server_gets_only_options_of_the_session() -> None:
    settings = settings_of({MASTER: "sc://host:15002/;token=secret"})
    assert settings.is_connect
    assert all(key.startswith("spark.sql.") for key in settings.conf)
    assert "secret" not in settings.redacted_master


def test_jobs_with_equal_settings_share_a_session() -> None:
    one, same = settings_of({MASTER: "local[2]"}), settings_of({MASTER: "local[2]", "pipeline.name": "other"})
    other = settings_of({MASTER: "local[2]", "execution.batch.spark.conf.spark.driver.memory": "2g"})
    assert one.session_key == same.session_key != other.session_key


@pytest.mark.parametrize("master", ["mesos://host", "localhost:7077", "", "local[2", "local[x]"])
def test_an_unknown_master_is_refused(master: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a master of Spark: expected local"):
        settings_of({MASTER: master or " "})


def test_a_master_in_a_key_of_spark_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"set the master of Spark by execution\.batch\.spark\.master"):
        settings_of({"execution.batch.spark.conf.spark.master": "local"})


def test_a_driver_inside_the_cluster_is_refused() -> None:
    key = "execution.batch.spark.conf.spark.submit.deployMode"
    with pytest.raises(ConfigurationError, match="'cluster' is not possible: Spark's driver runs"):
        settings_of({MASTER: "spark://host:7077", key: "cluster"})
    assert settings_of({MASTER: "spark://host:7077", key: "client"}).master == "spark://host:7077"


class Defaults:
    """The settings of a spark-defaults.conf."""

    def __init__(self, *keys: str) -> None:
        self._keys = keys

    def contains(self, key: str) -> bool:
        return key in self._keys

    def get(self, key: str, default: str) -> str:
        return "true" if key in self._keys else default


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443"])
def test_executors_come_and_go_where_the_master_can(master: str) -> None:
    defaults = dynamic_allocation_defaults(settings_of({MASTER: master}), Defaults())
    assert defaults["spark.dynamicAllocation.enabled"] == "true"
    assert defaults["spark.dynamicAllocation.shuffleTracking.enabled"] == "true"
    assert defaults["spark.dynamicAllocation.executorIdleTimeout"] == "30s"


@pytest.mark.parametrize("master", ["local[2]", "sc://host"])
def test_masters_without_executors_of_their_own_have_no_dynamic_allocation(master: str) -> None:
    assert dynamic_allocation_defaults(settings_of({MASTER: master}), Defaults()) == {}


@pytest.mark.parametrize("key", ["spark.executor.instances", "spark.dynamicAllocation.enabled"])
def test_the_settings_of_the_user_for_executors_win(key: str) -> None:
    job = settings_of({MASTER: "yarn", f"execution.batch.spark.conf.{key}": "1"})
    assert dynamic_allocation_defaults(job, Defaults()) == {}, "in the configuration of the job"
    assert dynamic_allocation_defaults(settings_of({MASTER: "yarn"}), Defaults(key)) == {}, "in spark-defaults.conf"


def test_the_users_idle_time_out_of_executors_wins() -> None:
    key = "spark.dynamicAllocation.executorIdleTimeout"
    job = settings_of({MASTER: "yarn", f"execution.batch.spark.conf.{key}": "5m"})
    defaults = dynamic_allocation_defaults(job, Defaults())
    assert key not in defaults and defaults["spark.dynamicAllocation.enabled"] == "true"
    assert key not in dynamic_allocation_defaults(settings_of({MASTER: "yarn"}), Defaults(key))


def test_jobs_that_only_differ_in_bounds_share_a_session() -> None:
    one = settings_of({"execution.batch.spark.session.idle-timeout": "7 s"})
    assert one.idle_timeout_ms == 7_000
    assert one.session_key == settings_of({"execution.batch.spark.session.max-number": 9}).session_key


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host:6443"])
def test_processes_of_an_application_authenticate_each_other_where_spark_makes_the_secret(master: str) -> None:
    key = "spark.authenticate"
    assert driver_defaults(settings_of({MASTER: master}), Defaults())[key] == "true"
    assert key not in driver_defaults(settings_of({MASTER: master}), Defaults(key)), "the user has decided"
    service = {"execution.batch.spark.conf.spark.shuffle.service.enabled": "true"}
    assert key not in driver_defaults(settings_of({MASTER: master, **service}), Defaults()), "as the service has it"
    assert key not in driver_defaults(settings_of({MASTER: master}), Defaults("spark.shuffle.service.enabled"))


def test_a_standalone_cluster_authenticates_only_with_the_secret_of_its_master() -> None:
    assert "spark.authenticate" not in driver_defaults(settings_of({MASTER: "spark://host:7077"}), Defaults())


def test_a_lost_executor_is_asked_for_data_for_five_seconds_unless_the_user_has_decided() -> None:
    retries, wait = "spark.shuffle.io.maxRetries", "spark.shuffle.io.retryWait"
    cluster = {MASTER: "spark://host:7077"}
    found = driver_defaults(settings_of(cluster), Defaults())
    assert (found[retries], found[wait]) == ("5", "1s")
    for own in (retries, wait, "spark.shuffle.service.enabled"):
        assert not {retries, wait} & driver_defaults(settings_of(cluster), Defaults(own)).keys(), own
        conf = {**cluster, f"execution.batch.spark.conf.{own}": "true"}
        assert not {retries, wait} & driver_defaults(settings_of(conf), Defaults()).keys(), own
    assert driver_defaults(settings_of({}), Defaults()) == {}, "a master on this host has one executor"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443"])
def test_executors_find_the_driver_under_the_address_of_its_task_executor(master: str) -> None:
    key = "spark.driver.host"
    told = settings_of({MASTER: master, "taskmanager.host": "10.1.2.3", "taskmanager.bind-host": "0.0.0.0"})
    assert driver_defaults(told, Defaults())[key] == "10.1.2.3"
    assert driver_defaults(told, Defaults())["spark.driver.bindAddress"] == "0.0.0.0"
    assert key not in driver_defaults(told, Defaults(key)), "in spark-defaults.conf"
    assert driver_defaults(settings_of({MASTER: master, "taskmanager.host": "fd00::1"}), Defaults())[key] == "[fd00::1]"
    own = {"execution.batch.spark.conf.spark.driver.host": "gateway"}
    assert key not in driver_defaults(settings_of({MASTER: master, "taskmanager.host": "10.1.2.3", **own}), Defaults())
    for loopback in ("127.0.0.1", "localhost", "::1"):
        assert key not in driver_defaults(settings_of({MASTER: master, "taskmanager.host": loopback}), Defaults())
