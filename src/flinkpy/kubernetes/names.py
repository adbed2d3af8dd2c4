"""The names and labels of the objects of a cluster in Kubernetes.

Source: org.apache.flink.kubernetes.utils.{Constants,KubernetesUtils}, KubernetesConfigOptions.CLUSTER_ID.
"""

from __future__ import annotations

import re

from flinkpy.common.errors import ConfigurationError

#: The container of a pod template that runs flinkpy.
MAIN_CONTAINER = "flink-main-container"

LABEL_TYPE = "type"
LABEL_TYPE_NATIVE = "flink-native-kubernetes"
LABEL_APP = "app"
LABEL_COMPONENT = "component"
COMPONENT_JOB_MANAGER = "jobmanager"
COMPONENT_TASK_MANAGER = "taskmanager"
#: The ResourceID of a TaskExecutor, by which a later ResourceManager finds the pods of its predecessor.
LABEL_RESOURCE_ID = "flinkpy/resource-id"

MAX_CLUSTER_ID_CHARS = 45
_CLUSTER_ID = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def check_cluster_id(cluster_id: str | None) -> str:
    """Returns the id if it can be part of names in Kubernetes.

    Raises:
        ConfigurationError: it is missing, too long, or has other characters.
    """
    option = {"option": "kubernetes.cluster-id"}
    if not cluster_id:
        raise ConfigurationError("a cluster on Kubernetes needs a name: set `kubernetes.cluster-id`", details=option)
    if len(cluster_id) > MAX_CLUSTER_ID_CHARS:
        raise ConfigurationError(
            f"`kubernetes.cluster-id` = {cluster_id} has {len(cluster_id)} characters; it may have at most "
            f"{MAX_CLUSTER_ID_CHARS}, because names of objects are made of it",
            details=option,
        )
    if _CLUSTER_ID.fullmatch(cluster_id) is None:
        raise ConfigurationError(
            f"`kubernetes.cluster-id` = {cluster_id}: only lower-case letters, digits and - are allowed, it must begin "
            "with a letter and must not end with -",
            details=option,
        )
    return cluster_id


def configuration_name(cluster_id: str) -> str:
    """Returns the name of the ConfigMap with the `config.yaml` of a cluster."""
    return f"flink-config-{cluster_id}"


def security_name(cluster_id: str) -> str:
    """Returns the name of the Secret with the cluster secret and the certificates of a cluster."""
    return f"flink-security-{cluster_id}"


def client_security_name(cluster_id: str) -> str:
    """Returns the name of the Secret with what a client needs: a token and certificates."""
    return f"flink-client-security-{cluster_id}"


def rest_service_name(cluster_id: str) -> str:
    """Returns the name of the service by which clients reach a cluster."""
    return f"{cluster_id}-rest"


def cluster_labels(cluster_id: str) -> dict[str, str]:
    """Returns the labels of all objects of a cluster."""
    return {LABEL_APP: cluster_id, LABEL_TYPE: LABEL_TYPE_NATIVE}


def task_manager_labels(cluster_id: str) -> dict[str, str]:
    """Returns the labels by which the TaskExecutor pods of a cluster are selected."""
    return {**cluster_labels(cluster_id), LABEL_COMPONENT: COMPONENT_TASK_MANAGER}


def job_manager_labels(cluster_id: str) -> dict[str, str]:
    """Returns the labels by which the pods of the masters are selected."""
    return {**cluster_labels(cluster_id), LABEL_COMPONENT: COMPONENT_JOB_MANAGER}


def selector(labels: dict[str, str]) -> str:
    """Returns the text of a label selector that all these labels match."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
