"""`flinkpy kubernetes-session start | stop`, and clusters on Kubernetes for `flinkpy run` and `run-application`.

Source: org.apache.flink.kubernetes.cli.KubernetesSessionCli,
org.apache.flink.kubernetes.executors.KubernetesSessionClusterExecutor.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from flinkpy.cli.options import configuration_options, load_valid_configuration
from flinkpy.common.errors import FlinkError, UserError

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.kubernetes.api_client import KubernetesApi
    from flinkpy.kubernetes.cluster_credentials import ClusterCredentials
    from flinkpy.kubernetes.cluster_objects import ClusterObjects

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: How long the masters of a cluster may take to serve, images included.
_START_TIMEOUT_S = 300.0
_DELETION_PAUSE_S = 5.0


@click.group()
def kubernetes_session() -> None:
    """Start or stop a cluster on Kubernetes that runs many jobs.

    `flinkpy run -t kubernetes-session -D kubernetes.cluster-id=ID` submits jobs to it.
    """


@kubernetes_session.command()
@configuration_options
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=1),
    default=_START_TIMEOUT_S,
    show_default=True,
    help="How many seconds the masters may take to serve. After that, the cluster is deleted.",
)
def start(timeout_s: float, config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> None:
    """Create the cluster of `kubernetes.cluster-id`, and wait until it accepts jobs.

    The API server is the one of `kubernetes.config.file`, or of the current context of kubectl.
    """
    from flinkpy.kubernetes.cluster_objects import session_objects

    configuration = load_valid_configuration(config_dir, properties, {})
    objects = session_objects(configuration, _credentials())
    cluster_id = _deploy(configuration, objects, timeout_s)
    click.echo(f"Created session cluster {cluster_id}.")
    click.echo(f"Run programs with: flinkpy run -t kubernetes-session -D kubernetes.cluster-id={cluster_id} PROGRAM")


@kubernetes_session.command()
@configuration_options
def stop(config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> None:
    """Delete the cluster of `kubernetes.cluster-id`, with its TaskExecutors. Running jobs are lost."""
    configuration = load_valid_configuration(config_dir, properties, {})
    cluster_id = _delete(configuration)
    if cluster_id is None:
        raise UserError(f"there is no cluster {configuration.get_string('kubernetes.cluster-id', '')} to stop")
    click.echo(f"Stopped session cluster {cluster_id}.")


def use_kubernetes_cluster(configuration: Configuration) -> str:
    """Returns the address of the Dispatcher of a session cluster, and adds a client's credentials to the options.

    Their files exist as long as this process.

    Raises:
        ConfigurationError: there is no such cluster.
        KubernetesError: the API server refuses, or does not answer.
    """
    from flinkpy.kubernetes.cluster_retrieval import retrieve_cluster

    found = _call(configuration, lambda api: retrieve_cluster(api, configuration))
    directory = tempfile.mkdtemp(prefix="flinkpy-kubernetes-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    for key, value in found.write_credentials(Path(directory)).items():
        configuration.set_string(key, value)
    configuration.remove_config("security.token")
    return found.address


def deploy_application(configuration: Configuration, program: str, arguments: tuple[str, ...]) -> None:
    """Creates a cluster that runs a program of its image, and returns when the program has begun.

    Raises:
        ConfigurationError: an option is wrong.
        KubernetesError: the cluster could not be created.
    """
    from flinkpy.kubernetes.cluster_objects import application_objects

    objects = application_objects(configuration, _credentials(), program, arguments)
    cluster_id = _deploy(configuration, objects, _START_TIMEOUT_S)
    click.echo(f"Created application cluster {cluster_id}. It ends with the program.")


def delete_own_cluster(configuration: Configuration) -> None:
    """Deletes the cluster that this process belongs to, and waits for the signal that ends its pod.

    A container that ends before would be started again, and run the program again. Therefore it goes on trying, too.
    """
    from flinkpy.common.interruptible import AwaitedSignals

    end = AwaitedSignals(signal.SIGTERM, signal.SIGINT)
    while True:
        try:
            _delete(configuration)
        except FlinkError as error:
            logger.warning("the application has ended, but its cluster cannot be deleted: %s", error)
            if end.wait_for(_DELETION_PAUSE_S):
                return
            continue
        end.wait()
        return


def _credentials() -> ClusterCredentials:
    from flinkpy.common.clock import SystemClock
    from flinkpy.kubernetes.cluster_credentials import make_credentials

    return make_credentials(SystemClock().now_ms())


def _deploy(configuration: Configuration, objects: ClusterObjects, timeout_s: float) -> str:
    from flinkpy.kubernetes.cluster_descriptor import KubernetesClusterDescriptor

    def tell(line: str) -> None:
        click.echo(line, err=True)

    _call(configuration, lambda api: KubernetesClusterDescriptor(api, tell).deploy(objects, timeout_s))
    return str(objects.deployment["metadata"]["name"])


def _delete(configuration: Configuration) -> str | None:
    """Deletes the configured cluster. Returns its id; None if there is none."""
    from flinkpy.configuration import kubernetes_options, read_option
    from flinkpy.kubernetes.cluster_descriptor import KubernetesClusterDescriptor
    from flinkpy.kubernetes.names import check_cluster_id

    cluster_id = check_cluster_id(read_option(configuration, kubernetes_options.CLUSTER_ID))
    was_there = _call(configuration, lambda api: KubernetesClusterDescriptor(api, click.echo).stop(cluster_id))
    return cluster_id if was_there else None


def _call(configuration: Configuration, use: Callable[[KubernetesApi], Awaitable[T]]) -> T:
    from flinkpy.kubernetes.api_client import KubernetesApi

    async def call() -> T:
        api = await KubernetesApi.connect(configuration)
        try:
            return await use(api)
        finally:
            await api.close()

    return asyncio.run(call())
