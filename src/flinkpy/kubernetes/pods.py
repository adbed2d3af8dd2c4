"""The manifests of pods, made of the pod template and of the parameters of the cluster.

What the template says is kept, except for what the configuration says otherwise: lists of Kubernetes (containers,
volumes, variables, tolerations) are joined, and an element with a name replaces the one of that name.

Source: org.apache.flink.kubernetes.kubeclient.factory.KubernetesTaskManagerFactory, KubernetesJobManagerFactory and
the step decorators.
Differs: containers run as in the restricted pod security standard, unless the template has a security context.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkpy.common.ids import ResourceID
from flinkpy.kubernetes.names import (
    LABEL_RESOURCE_ID,
    MAIN_CONTAINER,
    configuration_name,
    job_manager_labels,
    security_name,
    task_manager_labels,
)
from flinkpy.kubernetes.pod_parameters import Manifest, PodParameters

#: Where the configuration of the cluster is mounted, and its secret and certificates.
CONFIGURATION_DIRECTORY = "/etc/flinkpy"
SECURITY_DIRECTORY = "/etc/flinkpy/security"
_CONFIGURATION_VOLUME, _SECURITY_VOLUME = "flink-config-volume", "flink-security-volume"
#: The time for tasks to be canceled after the pod is told to end.
_GRACE_S = 60
#: The address of the pod, which Kubernetes puts into arguments.
POD_IP = "$(POD_IP)"
#: Masters are reached by the name of a service, so they do not advertise the address that they bind.
ANY_ADDRESS = "0.0.0.0"
_RESOURCES_OF_RESOURCE_MANAGER = {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
_ALIVE = ["flinkpy", "health", "--expect", "alive"]
_PROBES: Manifest = {
    "startupProbe": {
        "exec": {"command": _ALIVE},
        "periodSeconds": 3,
        "timeoutSeconds": 10,
        "failureThreshold": 40,
    },
    "livenessProbe": {"exec": {"command": _ALIVE}, "periodSeconds": 20, "timeoutSeconds": 10},
    # Leads or stands by.
    "readinessProbe": {"exec": {"command": ["flinkpy", "health"]}, "periodSeconds": 10, "timeoutSeconds": 10},
}
#: The group of the image's user, which may read mounted secrets.
_IMAGE_GROUP = 9999
_RESTRICTED_POD = {"runAsNonRoot": True, "fsGroup": _IMAGE_GROUP, "seccompProfile": {"type": "RuntimeDefault"}}
_RESTRICTED_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def task_manager_pod(
    parameters: PodParameters,
    resource_id: ResourceID,
    *,
    settings: Mapping[str, str],
    owner: Manifest | None,
) -> Manifest:
    """Returns the pod that runs the TaskExecutor `resource_id`.

    Args:
        settings: options of this TaskExecutor beside those of the mounted configuration. None of them is confidential:
            users with the right to read pods see them.
        owner: a reference to the object with which the pod ends; None: it stays until it is deleted.
    """
    labels = {**task_manager_labels(parameters.cluster_id), LABEL_RESOURCE_ID: str(resource_id)}
    arguments = [
        "taskexecutor",
        *_settings({**settings, "taskmanager.resource-id": str(resource_id)}),
        *_settings({"taskmanager.bind-host": POD_IP, "taskmanager.host": POD_IP}),
        *parameters.arguments,
    ]
    pod = _pod(parameters, labels, arguments)
    pod["metadata"] |= {"name": pod_name(parameters.cluster_id, resource_id), "namespace": parameters.namespace}
    if owner is not None:
        pod["metadata"]["ownerReferences"] = [owner]
    # A TaskExecutor that ended is replaced by another one, with another ResourceID.
    pod["spec"]["restartPolicy"] = "Never"
    pod["spec"].setdefault("automountServiceAccountToken", False)
    return pod


@dataclass(frozen=True, slots=True)
class MastersCommand:
    """The command of the main container of a pod of masters: a verb, and the words after all options."""

    verb: str
    trailing: tuple[str, ...] = ()


def job_manager_pod(
    parameters: PodParameters, command: MastersCommand, rpc_port: int, manager_port: int, *, is_highly_available: bool
) -> Manifest:
    """Returns the template of the pods that run the masters: a Dispatcher and a ResourceManager, a container each.

    Args:
        command: what the container of the Dispatcher runs.
        rpc_port, manager_port: the ports of the Dispatcher and of the ResourceManager.
        is_highly_available: others find the leader's own address. False: TaskExecutors find the ResourceManager by the
            name of the service, also after its pod was replaced.
    """
    settings = {"jobmanager.bind-host": POD_IP, "jobmanager.rpc.address": POD_IP, "resourcemanager.rpc.address": POD_IP}
    arguments = [command.verb, *_settings(settings), *parameters.arguments, *command.trailing]
    pod = _pod(parameters, job_manager_labels(parameters.cluster_id), arguments)
    # Its pod may be there before it.
    next(each for each in pod["spec"]["volumes"] if each["name"] == _SECURITY_VOLUME)["secret"].pop("optional", None)
    containers = pod["spec"]["containers"]
    main = next(each for each in containers if each["name"] == MAIN_CONTAINER)
    bound = {"resourcemanager.bind-host": POD_IP if is_highly_available else ANY_ADDRESS}
    manager = {**copy.deepcopy(main), "name": "resourcemanager", "args": ["resourcemanager", *_settings(bound)]}
    manager["resources"] = copy.deepcopy(_RESOURCES_OF_RESOURCE_MANAGER)
    containers.append(manager)
    for container, service, port in ((main, "dispatcher", rpc_port), (manager, "resourcemanager", manager_port)):
        container["env"] = _joined(
            container["env"],
            [
                {"name": "FLINKPY_HEALTH_SERVICE", "value": service},
                {"name": "FLINKPY_HEALTH_ADDRESS", "value": f"{POD_IP}:{port}"},
            ],
        )
        container["ports"] = [*(container.get("ports") or []), {"containerPort": port}]
        for name, probe in _PROBES.items():
            container.setdefault(name, copy.deepcopy(probe))
    return pod


def pod_name(cluster_id: str, resource_id: ResourceID) -> str:
    """Returns the name of the pod of a TaskExecutor."""
    return f"{cluster_id}-taskmanager-{resource_id}"


def _settings(entries: Mapping[str, str]) -> list[str]:
    return [word for key in sorted(entries) for word in ("-D", f"{key}={entries[key]}")]


def _pod(parameters: PodParameters, labels: Mapping[str, str], arguments: list[str]) -> Manifest:
    """Returns the pod of the template with what the parameters say, and a main container with these arguments."""
    pod = copy.deepcopy(parameters.template)
    pod |= {"apiVersion": "v1", "kind": "Pod"}
    metadata = pod.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **parameters.labels, **labels}
    if annotations := {**(metadata.get("annotations") or {}), **parameters.annotations}:
        metadata["annotations"] = annotations
    spec = pod.setdefault("spec", {})
    _fill_spec(spec, parameters)
    main = next((each for each in spec["containers"] if each["name"] == MAIN_CONTAINER), None)
    if main is None:
        main = {"name": MAIN_CONTAINER}
        spec["containers"].insert(0, main)
    main["args"] = arguments
    _fill_main_container(main, parameters)
    return pod


def _fill_spec(spec: Manifest, parameters: PodParameters) -> None:
    spec["serviceAccountName"] = parameters.service_account
    spec.setdefault("terminationGracePeriodSeconds", _GRACE_S)
    if parameters.uses_host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    spec.setdefault("securityContext", copy.deepcopy(_RESTRICTED_POD))
    spec["containers"] = list(spec.get("containers") or [])
    if parameters.pull_secrets:
        secrets = [{"name": name} for name in parameters.pull_secrets]
        spec["imagePullSecrets"] = _joined(spec.get("imagePullSecrets"), secrets)
    if parameters.node_selector:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **parameters.node_selector}
    if parameters.tolerations:
        spec["tolerations"] = [*(spec.get("tolerations") or []), *(dict(each) for each in parameters.tolerations)]
    configuration = {"name": configuration_name(parameters.cluster_id)}
    # Readable by the group, which is the fsGroup of the security context.
    security = {"secretName": security_name(parameters.cluster_id), "optional": True, "defaultMode": 0o440}
    volumes = [
        {"name": _CONFIGURATION_VOLUME, "configMap": configuration},
        {"name": _SECURITY_VOLUME, "secret": security},
        *({"name": _volume_name("secret", name), "secret": {"secretName": name}} for name in parameters.secrets),
        *(
            {
                "name": _volume_name("claim", name),
                "persistentVolumeClaim": {"claimName": name, "readOnly": parameters.are_claims_read_only},
            }
            for name in parameters.persistent_volume_claims
        ),
    ]
    spec["volumes"] = _joined(spec.get("volumes"), volumes)


def _fill_main_container(main: Manifest, parameters: PodParameters) -> None:
    if parameters.image is not None:
        main["image"] = parameters.image
    main["imagePullPolicy"] = parameters.pull_policy
    main["env"] = _joined(
        [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "FLINKPY_CONF_DIR", "value": CONFIGURATION_DIRECTORY},
        ],
        [
            *(main.get("env") or []),
            *(
                {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
                for variable, (secret, key) in parameters.environment_secrets.items()
            ),
        ],
    )
    main["resources"] = _resources(main.get("resources") or {}, parameters)
    main.setdefault("securityContext", copy.deepcopy(_RESTRICTED_CONTAINER))
    mounts = [
        {"name": _CONFIGURATION_VOLUME, "mountPath": CONFIGURATION_DIRECTORY, "readOnly": True},
        {"name": _SECURITY_VOLUME, "mountPath": SECURITY_DIRECTORY, "readOnly": True},
        *({"name": _volume_name("secret", name), "mountPath": path} for name, path in parameters.secrets.items()),
        *(
            {"name": _volume_name("claim", name), "mountPath": path}
            for name, path in parameters.persistent_volume_claims.items()
        ),
    ]
    main["volumeMounts"] = [*(main.get("volumeMounts") or []), *mounts]


def _resources(of_template: Manifest, parameters: PodParameters) -> Manifest:
    requests: dict[str, Any] = {**(of_template.get("requests") or {}), "cpu": f"{parameters.cpu:g}"}
    limits: dict[str, Any] = {**(of_template.get("limits") or {}), "cpu": f"{parameters.cpu_limit:g}"}
    if parameters.memory_bytes is not None:
        requests["memory"], limits["memory"] = str(parameters.memory_bytes), str(parameters.memory_limit_bytes)
    return {**of_template, "requests": requests, "limits": limits}


def _joined(first: Sequence[Manifest] | None, second: Sequence[Manifest]) -> list[Manifest]:
    """Returns the elements of both lists; an element of the second replaces the one of its name."""
    return list({each["name"]: each for each in [*(first or []), *second]}.values())


def _volume_name(kind: str, name: str) -> str:
    return f"{kind}-{name}"[:63].rstrip("-.")
