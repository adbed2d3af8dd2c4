"""PodParameters: what the configuration says about the pods of TaskExecutors or of masters, read and checked once.

Source: org.apache.flink.kubernetes.kubeclient.parameters, KubernetesTaskManagerParameters and
KubernetesJobManagerParameters.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import kubernetes_options as options
from flinkpy.configuration import read_option, taskmanager_options
from flinkpy.configuration.options import AnyConfiguration, ConfigOption
from flinkpy.configuration.values import parse_map
from flinkpy.kubernetes.names import MAIN_CONTAINER, check_cluster_id

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _PodOptions:
    """The options of the pods of one component."""

    service_account: ConfigOption[str]
    cpu: ConfigOption[float]
    cpu_limit_factor: ConfigOption[float]
    memory_limit_factor: ConfigOption[float]
    labels: ConfigOption[dict[str, str]]
    annotations: ConfigOption[dict[str, str]]
    node_selector: ConfigOption[dict[str, str]]
    tolerations: ConfigOption[tuple[str, ...]]
    arguments: ConfigOption[str]
    template: ConfigOption[str | None]


_TASK_MANAGER = _PodOptions(
    options.TASK_MANAGER_SERVICE_ACCOUNT,
    options.TASK_MANAGER_CPU,
    options.TASK_MANAGER_CPU_LIMIT_FACTOR,
    options.TASK_MANAGER_MEMORY_LIMIT_FACTOR,
    options.TASK_MANAGER_LABELS,
    options.TASK_MANAGER_ANNOTATIONS,
    options.TASK_MANAGER_NODE_SELECTOR,
    options.TASK_MANAGER_TOLERATIONS,
    options.TASK_MANAGER_ENTRYPOINT_ARGS,
    options.TASK_MANAGER_POD_TEMPLATE,
)
_JOB_MANAGER = _PodOptions(
    options.JOB_MANAGER_SERVICE_ACCOUNT,
    options.JOB_MANAGER_CPU,
    options.JOB_MANAGER_CPU_LIMIT_FACTOR,
    options.JOB_MANAGER_MEMORY_LIMIT_FACTOR,
    options.JOB_MANAGER_LABELS,
    options.JOB_MANAGER_ANNOTATIONS,
    options.JOB_MANAGER_NODE_SELECTOR,
    options.JOB_MANAGER_TOLERATIONS,
    options.JOB_MANAGER_ENTRYPOINT_ARGS,
    options.JOB_MANAGER_POD_TEMPLATE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodParameters:
    """The pods of one component of one cluster.

    Attributes:
        cpu: the cores that a pod requests.
        cpu_limit: the cores that it may use.
        memory_bytes, memory_limit_bytes: the same for memory; None: no request and no limit.
        secrets, persistent_volume_claims: names with the paths at which they are mounted.
        environment_secrets: for each variable, the name of the secret and the key in it.
        template: the pod that the pods are made of.
    """

    cluster_id: str
    namespace: str
    image: str | None
    pull_policy: str
    pull_secrets: tuple[str, ...]
    service_account: str
    cpu: float
    cpu_limit: float
    memory_bytes: int | None
    memory_limit_bytes: int | None
    labels: dict[str, str]
    annotations: dict[str, str]
    node_selector: dict[str, str]
    tolerations: tuple[Mapping[str, Any], ...]
    arguments: tuple[str, ...]
    secrets: dict[str, str]
    environment_secrets: Mapping[str, tuple[str, str]]
    persistent_volume_claims: dict[str, str]
    are_claims_read_only: bool
    uses_host_network: bool
    template: Manifest


def read_task_manager_parameters(configuration: AnyConfiguration, *, memory_bytes: int | None) -> PodParameters:
    """Reads the options of TaskExecutor pods, and the file of the pod template.

    Args:
        memory_bytes: the memory budget of a TaskExecutor process; None: it has none.

    Raises:
        ConfigurationError: it names the option.
    """
    cpu = read_option(configuration, options.TASK_MANAGER_CPU)
    if cpu <= 0:
        cpu = float(read_option(configuration, taskmanager_options.NUM_TASK_SLOTS))
    return _read(configuration, _TASK_MANAGER, cpu, memory_bytes)


def read_job_manager_parameters(configuration: AnyConfiguration, *, memory_bytes: int | None) -> PodParameters:
    """Reads the options of the pods of masters, as `read_task_manager_parameters`."""
    return _read(configuration, _JOB_MANAGER, read_option(configuration, options.JOB_MANAGER_CPU), memory_bytes)


def _read(
    configuration: AnyConfiguration, of_component: _PodOptions, cpu: float, memory_bytes: int | None
) -> PodParameters:
    memory_factor = read_option(configuration, of_component.memory_limit_factor)
    template = read_template(configuration, of_component.template)
    image = read_option(configuration, options.CONTAINER_IMAGE)
    if image is None and not _main_container(template).get("image"):
        raise ConfigurationError(
            "pods need an image: set `kubernetes.container.image.ref`, or the image of the container "
            f"`{MAIN_CONTAINER}` in the pod template",
            details={"option": options.CONTAINER_IMAGE.key},
        )
    return PodParameters(
        cluster_id=check_cluster_id(read_option(configuration, options.CLUSTER_ID)),
        namespace=read_option(configuration, options.NAMESPACE),
        image=image,
        pull_policy=read_option(configuration, options.CONTAINER_IMAGE_PULL_POLICY),
        pull_secrets=read_option(configuration, options.CONTAINER_IMAGE_PULL_SECRETS),
        service_account=read_option(configuration, of_component.service_account),
        cpu=cpu,
        cpu_limit=cpu * read_option(configuration, of_component.cpu_limit_factor),
        memory_bytes=memory_bytes,
        memory_limit_bytes=None if memory_bytes is None else int(memory_bytes * memory_factor),
        labels=read_option(configuration, of_component.labels),
        annotations=read_option(configuration, of_component.annotations),
        node_selector=read_option(configuration, of_component.node_selector),
        tolerations=tuple(
            _toleration(entry, of_component.tolerations)
            for entry in read_maps(configuration, of_component.tolerations, required=())
        ),
        arguments=tuple(shlex.split(read_option(configuration, of_component.arguments))),
        secrets=read_option(configuration, options.SECRETS),
        environment_secrets={
            entry["env"]: (entry["secret"], entry["key"])
            for entry in read_maps(configuration, options.ENV_SECRET_KEY_REF, required=("env", "secret", "key"))
        },
        persistent_volume_claims=read_option(configuration, options.PERSISTENT_VOLUME_CLAIMS),
        are_claims_read_only=read_option(configuration, options.PERSISTENT_VOLUME_CLAIM_READ_ONLY),
        uses_host_network=read_option(configuration, options.HOST_NETWORK_ENABLED),
        template=template,
    )


def read_maps(
    configuration: AnyConfiguration, option: ConfigOption[tuple[str, ...]], *, required: tuple[str, ...]
) -> list[dict[str, str]]:
    """Returns the elements of a list whose elements are maps, as `a:1,b:2;a:3,b:4`. Raises: ConfigurationError."""
    found = []
    for text in read_option(configuration, option):
        try:
            entry = parse_map(text)
        except ValueError as error:
            raise _bad(option, text, str(error)) from None
        if missing := [key for key in required if key not in entry]:
            raise _bad(option, text, f"{', '.join(missing)} is missing")
        found.append(entry)
    return found


def _toleration(entry: Mapping[str, str], option: ConfigOption[Any]) -> dict[str, Any]:
    allowed = ("key", "operator", "value", "effect", "tolerationSeconds")
    shown = ",".join(f"{key}:{value}" for key, value in entry.items())
    if unknown := [key for key in entry if key not in allowed]:
        raise _bad(option, shown, f"{', '.join(unknown)} is unknown; expected {', '.join(allowed)}")
    toleration: dict[str, Any] = dict(entry)
    if (seconds := entry.get("tolerationSeconds")) is not None:
        if not seconds.isdecimal():
            raise _bad(option, shown, f"tolerationSeconds is {seconds}; expected a whole number")
        toleration["tolerationSeconds"] = int(seconds)
    return toleration


def read_template(configuration: AnyConfiguration, option: ConfigOption[str | None]) -> Manifest:
    """Returns the pod of the template file; an empty one if none is configured. Raises: ConfigurationError."""
    import yaml

    path = read_option(configuration, option)
    if path is None:
        return {}
    try:
        documents = list(yaml.safe_load_all(Path(path).read_text()))
    except OSError as error:
        raise _bad(option, path, f"the file cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise _bad(option, path, f"the file is not valid YAML: {' '.join(str(error).split())}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict) or documents[0].get("kind") != "Pod":
        raise _bad(option, path, "expected a file with one object, of kind Pod")
    return documents[0]


def _main_container(template: Manifest) -> Manifest:
    containers = (template.get("spec") or {}).get("containers") or []
    return next((each for each in containers if each.get("name") == MAIN_CONTAINER), {})


def _bad(option: ConfigOption[Any], text: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"option `{option.key}` has the value `{text}`: {problem}", details={"option": option.key}
    )
