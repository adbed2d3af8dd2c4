from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkpy.common.errors import ConfigurationError
from flinkpy.common.ids import ResourceID
from flinkpy.kubernetes.pod_parameters import read_task_manager_parameters
from flinkpy.kubernetes.pods import task_manager_pod

MANDATORY = {"kubernetes.cluster-id": "demo", "kubernetes.container.image.ref": "registry.example.org/pipelines:7"}
TEMPLATE = """
apiVersion: v1
kind: Pod
metadata:
  labels: {team: data, app: overridden}
spec:
  nodeSelector: {disk: ssd}
  securityContext: {runAsUser: 1000}
  initContainers:
    - {name: fetch, image: curl}
  containers:
    - {name: sidecar, image: logs:1}
    - name: flink-main-container
      image: overridden
      env:
        - {name: REGION, value: north}
      resources:
        limits: {nvidia.com/gpu: 1}
      volumeMounts:
        - {name: models, mountPath: /models}
  volumes:
    - {name: models, emptyDir: {}}
"""


def made(options: dict[str, str], memory_bytes: int | None = None) -> dict[str, Any]:
    parameters = read_task_manager_parameters({**MANDATORY, **options}, memory_bytes=memory_bytes)
    settings = {"resourcemanager.rpc.port": "6124"}
    return task_manager_pod(parameters, ResourceID("worker-7"), settings=settings, owner={"uid": "1"})


def main_of(pod: dict[str, Any]) -> dict[str, Any]:
    return next(each for each in pod["spec"]["containers"] if each["name"] == "flink-main-container")


def test_a_pod_runs_one_task_executor_under_its_own_name() -> None:
    pod = made({"taskmanager.numberOfTaskSlots": "3"}, memory_bytes=1 << 30)
    assert pod["metadata"]["name"] == "demo-taskmanager-worker-7"
    assert pod["metadata"]["labels"] == {
        "app": "demo",
        "type": "flink-native-kubernetes",
        "component": "taskmanager",
        "flinkpy/resource-id": "worker-7",
    }
    assert pod["metadata"]["ownerReferences"] == [{"uid": "1"}]
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["automountServiceAccountToken"] is False
    main = main_of(pod)
    assert main["args"][0] == "taskexecutor"
    assert "taskmanager.resource-id=worker-7" in main["args"]
    assert "resourcemanager.rpc.port=6124" in main["args"]
    assert main["resources"] == {
        "requests": {"cpu": "3", "memory": "1073741824"},
        "limits": {"cpu": "3", "memory": "1073741824"},
    }


def test_it_meets_the_restricted_pod_security_standard() -> None:
    pod = made({})
    assert pod["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "fsGroup": 9999,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert main_of(pod)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_requests_and_limits_may_differ() -> None:
    options = {
        "kubernetes.taskmanager.cpu.amount": "0.5",
        "kubernetes.taskmanager.cpu.limit-factor": "2",
        "kubernetes.taskmanager.memory.limit-factor": "1.5",
    }
    resources = main_of(made(options, memory_bytes=1000))["resources"]
    assert resources == {"requests": {"cpu": "0.5", "memory": "1000"}, "limits": {"cpu": "1", "memory": "1500"}}


def test_options_of_the_pod_are_in_it() -> None:
    pod = made(
        {
            "kubernetes.namespace": "pipelines",
            "kubernetes.container.image.pull-policy": "Always",
            "kubernetes.container.image.pull-secrets": "registry;mirror",
            "kubernetes.taskmanager.labels": "team:data,tier:gold",
            "kubernetes.taskmanager.annotations": "a:1",
            "kubernetes.taskmanager.node-selector": "disk:ssd",
            "kubernetes.taskmanager.tolerations": "key:gpu,operator:Exists;"
            "key:slow,effect:NoExecute,tolerationSeconds:60",
            "kubernetes.taskmanager.entrypoint.args": "-D 'a.b=c d'",
            "kubernetes.service-account": "worker",
            "kubernetes.secrets": "keys:/etc/keys",
            "kubernetes.env.secretKeyRef": "env:TOKEN,secret:api,key:token",
            "kubernetes.persistent-volume-claims": "models:/models",
        }
    )
    spec, main = pod["spec"], main_of(pod)
    assert pod["metadata"]["namespace"] == "pipelines"
    assert pod["metadata"]["labels"]["tier"] == "gold"
    assert pod["metadata"]["annotations"] == {"a": "1"}
    assert spec["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}]
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["tolerations"] == [
        {"key": "gpu", "operator": "Exists"},
        {"key": "slow", "effect": "NoExecute", "tolerationSeconds": 60},
    ]
    assert spec["serviceAccountName"] == "worker"
    assert main["imagePullPolicy"] == "Always"
    assert main["args"][-2:] == ["-D", "a.b=c d"]
    token = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "api", "key": "token"}}}
    assert token in main["env"]
    own = {"/etc/flinkpy", "/etc/flinkpy/security"}
    assert {each["mountPath"] for each in main["volumeMounts"]} == {"/etc/keys", "/models", *own}
    assert {each["name"] for each in main["volumeMounts"]} == {each["name"] for each in spec["volumes"]}


def test_a_pod_template_is_kept_where_the_configuration_says_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(TEMPLATE)
    options = {"kubernetes.pod-template-file": str(file), "kubernetes.taskmanager.node-selector": "zone:a"}
    pod = made(options)
    main = main_of(pod)
    assert pod["metadata"]["labels"]["team"] == "data"
    assert pod["metadata"]["labels"]["app"] == "demo"
    assert pod["spec"]["nodeSelector"] == {"disk": "ssd", "zone": "a"}
    assert pod["spec"]["securityContext"] == {"runAsUser": 1000}
    assert [each["name"] for each in pod["spec"]["containers"]] == ["sidecar", "flink-main-container"]
    assert [each["name"] for each in pod["spec"]["initContainers"]] == ["fetch"]
    assert main["image"] == "registry.example.org/pipelines:7"
    assert {"name": "REGION", "value": "north"} in main["env"]
    assert main["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert main["volumeMounts"][0] == {"name": "models", "mountPath": "/models"}


def test_the_template_is_not_changed_by_the_pods_made_of_it(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(TEMPLATE)
    parameters = read_task_manager_parameters(
        {**MANDATORY, "kubernetes.pod-template-file.taskmanager": str(file)}, memory_bytes=None
    )
    first = task_manager_pod(parameters, ResourceID("a"), settings={}, owner=None)
    again = task_manager_pod(parameters, ResourceID("a"), settings={}, owner=None)
    assert first == again


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kubernetes.cluster-id": ""}, "needs a name: set `kubernetes.cluster-id`"),
        ({"kubernetes.cluster-id": "Demo"}, "only lower-case letters"),
        ({"kubernetes.cluster-id": "x" * 46}, "has 46 characters; it may have at most 45"),
        ({"kubernetes.taskmanager.tolerations": "key:a,until:b"}, "until is unknown"),
        ({"kubernetes.taskmanager.tolerations": "tolerationSeconds:b"}, "expected a whole number"),
        ({"kubernetes.env.secretKeyRef": "env:A,secret:b"}, "key is missing"),
        ({"kubernetes.pod-template-file.taskmanager": "/nowhere.yaml"}, "cannot be read: No such file"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_task_manager_parameters({**MANDATORY, **options}, memory_bytes=None)
    assert caught.value.details["option"].startswith("kubernetes.")


def test_pods_without_an_image_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"set `kubernetes\.container\.image\.ref`"):
        read_task_manager_parameters({"kubernetes.cluster-id": "demo"}, memory_bytes=None)


@pytest.mark.parametrize("text", ["kind: Deployment", "- a\n- b", "kind: Pod\n---\nkind: Pod", "a: [", ""])
def test_a_template_that_is_no_pod_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(text)
    options = {**MANDATORY, "kubernetes.pod-template-file.taskmanager": str(file)}
    with pytest.raises(ConfigurationError, match=r"kind Pod|not valid YAML"):
        read_task_manager_parameters(options, memory_bytes=None)
