"""ClusterObjects: the manifests of a cluster: a Deployment of masters, services, a ConfigMap and secrets.

```
  Deployment ID                    the masters; it owns all other objects, which are deleted with it
  Service ID                       the masters for each other and for TaskExecutors (headless)
  Service ID-rest                  the Dispatcher for clients, exposed as configured
  ConfigMap flink-config-ID        config.yaml, and the template of TaskExecutor pods
  Secret flink-security-ID         cluster secret and certificates of the services
  Secret flink-client-security-ID  token and certificate of clients
```

Pure, but for the file of the pod template. Source: org.apache.flink.kubernetes.kubeclient.decorators
(InternalServiceDecorator, ExternalServiceDecorator, FlinkConfMountDecorator, PodTemplateMountDecorator).
Differs: the masters are two containers, and the services authenticate each other with mutual TLS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import core_options, jobmanager_options, read_option, resource_manager_options
from flinkpy.configuration import high_availability_options as ha_options
from flinkpy.configuration import kubernetes_options as options
from flinkpy.configuration.options import AnyConfiguration, ConfigOption, entries_of
from flinkpy.configuration.redaction import is_sensitive
from flinkpy.kubernetes.cluster_credentials import AUTHORITY_FILE, SECRET_FILE, SERVICE_FILE, ClusterCredentials
from flinkpy.kubernetes.names import (
    client_security_name,
    configuration_name,
    job_manager_labels,
    rest_service_name,
    security_name,
)
from flinkpy.kubernetes.pod_parameters import (
    Manifest,
    read_job_manager_parameters,
    read_maps,
    read_task_manager_parameters,
    read_template,
)
from flinkpy.kubernetes.pods import CONFIGURATION_DIRECTORY, SECURITY_DIRECTORY, MastersCommand, job_manager_pod

_TEMPLATE_FILE = "taskmanager-pod-template.yaml"
#: Begins the path of a program that is in the image, as in Flink.
_OF_IMAGE = "local://"
#: The port of the ResourceManager unless one is configured: TaskExecutors find it behind the service.
_RESOURCE_MANAGER_PORT = 6124
#: Options of the client that deploys the cluster, which mean nothing in a pod.
_OF_CLIENT = (
    options.CONFIG_FILE.key,
    options.CONTEXT.key,
    "execution.attached",
    "jobmanager.bind-host",
    "jobmanager.rpc.address",
    "resourcemanager.bind-host",
    "taskmanager.bind-host",
    "taskmanager.host",
)
_OF_CLIENT_PREFIXES = ("$internal.", "security.ssl.internal.", "security.secret", "security.token", "env.pid.")


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """The objects of a cluster.

    Attributes:
        deployment: the masters. It is created first.
        owned: kinds and manifests of the objects that are deleted with it.
    """

    deployment: Manifest
    owned: tuple[tuple[str, Manifest], ...]


def session_objects(configuration: AnyConfiguration, credentials: ClusterCredentials) -> ClusterObjects:
    """Returns the objects of a session cluster.

    Raises:
        ConfigurationError: it names the option.
    """
    return _objects(configuration, credentials, MastersCommand("dispatcher"), core_options.KUBERNETES_SESSION)


def application_objects(
    configuration: AnyConfiguration, credentials: ClusterCredentials, program: str, arguments: tuple[str, ...]
) -> ClusterObjects:
    """Returns the objects of a cluster that runs a program of its image, and ends with it.

    Raises:
        ConfigurationError: it names the option.
    """
    command = MastersCommand("standalone-job", ("--", program.removeprefix(_OF_IMAGE), *arguments))
    return _objects(configuration, credentials, command, core_options.KUBERNETES_APPLICATION)


def _objects(
    configuration: AnyConfiguration,
    credentials: ClusterCredentials,
    command: MastersCommand,
    target: str,
) -> ClusterObjects:
    memory = read_option(configuration, jobmanager_options.TOTAL_PROCESS_MEMORY)
    parameters = read_job_manager_parameters(configuration, memory_bytes=memory)
    # A wrong option of TaskExecutors is reported by the client, and not by a pod.
    read_task_manager_parameters(configuration, memory_bytes=None)
    cluster_id, labels = parameters.cluster_id, job_manager_labels(parameters.cluster_id)
    rpc_port, manager_port = _ports(configuration)
    is_highly_available = read_option(configuration, ha_options.HA_MODE) != "NONE"
    replicas = read_option(configuration, options.JOB_MANAGER_REPLICAS)
    if replicas > 1 and not is_highly_available:
        raise ConfigurationError(
            f"`{options.JOB_MANAGER_REPLICAS.key}` is {replicas}, but only one master can run without high "
            f"availability: set `{ha_options.HA_MODE.key}`",
            details={"option": options.JOB_MANAGER_REPLICAS.key},
        )
    pod = job_manager_pod(parameters, command, rpc_port, manager_port, is_highly_available=is_highly_available)
    del pod["apiVersion"], pod["kind"]
    spec: Manifest = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
    if not is_highly_available:
        # Two masters would not know of each other while one replaces the other.
        spec["strategy"] = {"type": "Recreate"}
    deployment: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": cluster_id, "labels": labels},
        "spec": spec,
    }
    if owners := _owners(configuration):
        deployment["metadata"] = {**deployment["metadata"], "ownerReferences": owners}
    rpc, manager = _port("jobmanager-rpc", rpc_port), _port("resourcemanager-rpc", manager_port)
    # Masters find each other before they are ready.
    internal = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels, "ports": [rpc, manager]}
    data = _configuration_files(configuration, target, f"{cluster_id}.{parameters.namespace}", manager_port)
    of_user = options.INTERNAL_SERVICE_LABELS, options.INTERNAL_SERVICE_ANNOTATIONS
    owned = (
        ("configmaps", _object("ConfigMap", configuration_name(cluster_id), labels, data=data)),
        ("secrets", _secret(security_name(cluster_id), labels, credentials.of_services)),
        ("secrets", _secret(client_security_name(cluster_id), labels, credentials.of_clients)),
        ("services", _service(cluster_id, labels, internal, configuration, of_user)),
        ("services", _rest_service(configuration, cluster_id, labels, rpc)),
    )
    return ClusterObjects(deployment, owned)


def owner_reference(deployment: Manifest) -> Manifest:
    """Returns a reference to a created Deployment, for objects that are deleted with it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": deployment["metadata"]["name"],
        "uid": deployment["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _ports(configuration: AnyConfiguration) -> tuple[int, int]:
    rpc_port = read_option(configuration, jobmanager_options.PORT)
    if rpc_port == 0:
        raise ConfigurationError(
            f"`{jobmanager_options.PORT.key}` is 0 (any free port), but a service of Kubernetes needs a fixed port",
            details={"option": jobmanager_options.PORT.key},
        )
    return rpc_port, read_option(configuration, resource_manager_options.IPC_PORT) or _RESOURCE_MANAGER_PORT


def _configuration_files(
    configuration: AnyConfiguration, target: str, service: str, manager_port: int
) -> dict[str, str]:
    """Returns the files of the ConfigMap."""
    import yaml

    entries = {
        key: value
        for key, value in entries_of(configuration).items()
        if key not in _OF_CLIENT and not key.startswith(_OF_CLIENT_PREFIXES)
    }
    if confidential := sorted(key for key in entries if is_sensitive(key)):
        raise ConfigurationError(
            f"{', '.join(f'`{key}`' for key in confidential)} would be in a ConfigMap, which others may read: pass it "
            f"by `{options.ENV_SECRET_KEY_REF.key}` or `{options.SECRETS.key}`",
            details={"option": confidential[0]},
        )
    files = {}
    template = read_template(configuration, options.TASK_MANAGER_POD_TEMPLATE)
    for key in (*options.TASK_MANAGER_POD_TEMPLATE.keys, *options.JOB_MANAGER_POD_TEMPLATE.keys):
        entries.pop(key, None)
    if template:
        files[_TEMPLATE_FILE] = yaml.safe_dump(template)
        entries[options.TASK_MANAGER_POD_TEMPLATE.key] = f"{CONFIGURATION_DIRECTORY}/{_TEMPLATE_FILE}"
    entries |= {
        core_options.EXECUTION_TARGET.key: target,
        resource_manager_options.DRIVER.key: "kubernetes",
        resource_manager_options.ADDRESS.key: service,
        resource_manager_options.IPC_PORT.key: str(manager_port),
        "security.secret-file": f"{SECURITY_DIRECTORY}/{SECRET_FILE}",
        "security.ssl.internal.enabled": "true",
        "security.ssl.internal.keystore": f"{SECURITY_DIRECTORY}/{SERVICE_FILE}",
        "security.ssl.internal.truststore": f"{SECURITY_DIRECTORY}/{AUTHORITY_FILE}",
    }
    files["config.yaml"] = yaml.safe_dump(entries, allow_unicode=True, width=1 << 20)
    return files


def _rest_service(configuration: AnyConfiguration, cluster_id: str, labels: Mapping[str, str], port: Manifest) -> Any:
    exposed = read_option(configuration, options.REST_SERVICE_EXPOSED_TYPE)
    is_headless = exposed == "Headless_ClusterIP"
    spec: Manifest = {"type": "ClusterIP" if is_headless else exposed, "selector": dict(labels), "ports": [port]}
    if is_headless:
        spec["clusterIP"] = "None"
    name = rest_service_name(cluster_id)
    labels_and_annotations = options.REST_SERVICE_LABELS, options.REST_SERVICE_ANNOTATIONS
    return _service(name, labels, spec, configuration, labels_and_annotations)


def _service(
    name: str,
    labels: Mapping[str, str],
    spec: Manifest,
    configuration: AnyConfiguration,
    of_user: tuple[ConfigOption[dict[str, str]], ConfigOption[dict[str, str]]],
) -> Manifest:
    """Returns a service. `of_user`: the options of its additional labels and of its annotations."""
    further, annotations = (read_option(configuration, option) for option in of_user)
    service = _object("Service", name, {**further, **labels}, spec=spec)
    if annotations:
        service["metadata"]["annotations"] = annotations
    return service


def _owners(configuration: AnyConfiguration) -> list[Manifest]:
    """Returns references to the objects that the user wants to own the cluster."""
    required = ("apiVersion", "kind", "name", "uid")
    owners: list[Manifest] = []
    for entry in read_maps(configuration, options.JOB_MANAGER_OWNER_REFERENCE, required=required):
        owner: Manifest = {key: entry[key] for key in required}
        owner |= {key: entry[key] == "true" for key in ("controller", "blockOwnerDeletion") if key in entry}
        owners.append(owner)
    return owners


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "port": number, "targetPort": number}


def _secret(name: str, labels: Mapping[str, str], files: Mapping[str, str]) -> Manifest:
    return _object("Secret", name, labels, type="Opaque", stringData=dict(files))


def _object(kind: str, name: str, labels: Mapping[str, str], **fields: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": dict(labels)}, **fields}
