"""The manifests of clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from flinkpy.common.errors import ConfigurationError
from flinkpy.kubernetes.cluster_credentials import ClusterCredentials
from flinkpy.kubernetes.cluster_objects import ClusterObjects, application_objects, session_objects

CREDENTIALS = ClusterCredentials({"secret": "00"}, {"token": "fp1"})
MANDATORY = {
    "kubernetes.cluster-id": "demo",
    "kubernetes.namespace": "data",
    "kubernetes.container.image.ref": "registry.example.org/pipelines:7",
}


def session(**entries: str) -> ClusterObjects:
    return session_objects(MANDATORY | entries, CREDENTIALS)


def of(objects: ClusterObjects, kind: str, name: str) -> dict[str, Any]:
    return next(each for k, each in objects.owned if k == kind and each["metadata"]["name"] == name)


def containers(objects: ClusterObjects) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in objects.deployment["spec"]["template"]["spec"]["containers"]}


def configuration(objects: ClusterObjects) -> dict[str, str]:
    return yaml.safe_load(of(objects, "configmaps", "flink-config-demo")["data"]["config.yaml"])


def test_the_masters_are_a_dispatcher_and_a_resource_manager_which_are_probed() -> None:
    made = containers(session())
    assert made["flink-main-container"]["args"][0] == "dispatcher"
    assert made["resourcemanager"]["args"] == ["resourcemanager", "-D", "resourcemanager.bind-host=0.0.0.0"]
    for container in made.values():
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    variables = {each["name"]: each.get("value") for each in made["resourcemanager"]["env"]}
    assert variables["FLINKPY_HEALTH_ADDRESS"] == "$(POD_IP):6124"


def test_options_of_the_client_do_not_reach_the_cluster() -> None:
    of_client = {"kubernetes.config.file": "/home/me/config", "security.token-file": "/home/me/token"}
    objects = session(**of_client, **{"parallelism.default": "4"})
    found = configuration(objects)
    assert found["parallelism.default"] == "4"
    assert found["resourcemanager.rpc.address"] == "demo.data"
    assert not any("/home/me" in value for value in found.values())


def test_a_confidential_option_is_refused_because_config_maps_are_not() -> None:
    with pytest.raises(ConfigurationError, match=r"`s3.secret-key` would be in a ConfigMap"):
        session(**{"s3.secret-key": "x"})


def test_more_than_one_master_needs_high_availability() -> None:
    with pytest.raises(ConfigurationError, match=r"`kubernetes.jobmanager.replicas` is 2"):
        session(**{"kubernetes.jobmanager.replicas": "2"})


def test_a_service_needs_a_fixed_port() -> None:
    with pytest.raises(ConfigurationError, match=r"`jobmanager.rpc.port` is 0"):
        session(**{"jobmanager.rpc.port": "0"})


def test_the_template_of_task_executors_is_mounted_beside_the_configuration(tmp_path: Path) -> None:
    template = tmp_path / "pod.yaml"
    template.write_text("kind: Pod\nspec: {priorityClassName: high}\n")
    objects = session(**{"kubernetes.pod-template-file.default": str(template)})
    data = of(objects, "configmaps", "flink-config-demo")["data"]
    assert yaml.safe_load(data["taskmanager-pod-template.yaml"])["spec"] == {"priorityClassName": "high"}
    mounted = "/etc/flinkpy/taskmanager-pod-template.yaml"
    assert configuration(objects)["kubernetes.pod-template-file.taskmanager"] == mounted
    assert objects.deployment["spec"]["template"]["spec"]["priorityClassName"] == "high"


def test_the_memory_of_masters_is_requested_for_the_dispatcher_and_its_job_masters() -> None:
    objects = session(**{"jobmanager.memory.process.size": "1600m"})
    assert containers(objects)["flink-main-container"]["resources"]["limits"]["memory"] == str(1600 << 20)


@pytest.mark.parametrize(
    ("exposed", "expected"),
    [
        ("ClusterIP", {"type": "ClusterIP"}),
        ("NodePort", {"type": "NodePort"}),
        ("LoadBalancer", {"type": "LoadBalancer"}),
        ("Headless_ClusterIP", {"type": "ClusterIP", "clusterIP": "None"}),
    ],
)
def test_the_service_for_clients_is_of_the_configured_type(exposed: str, expected: dict[str, str]) -> None:
    options = MANDATORY | {
        "kubernetes.rest-service.exposed.type": exposed,
        "kubernetes.rest-service.annotations": "balancer:internal",
    }
    service = of(session_objects(options, CREDENTIALS), "services", "demo-rest")
    assert expected.items() <= service["spec"].items()
    assert service["metadata"]["annotations"] == {"balancer": "internal"}


def test_an_application_runs_a_program_of_the_image() -> None:
    objects = application_objects(MANDATORY, CREDENTIALS, "local:///opt/job.py", ("-D", "x"))
    arguments = containers(objects)["flink-main-container"]["args"]
    assert arguments[0] == "standalone-job" and arguments[-4:] == ["--", "/opt/job.py", "-D", "x"]
    assert configuration(objects)["execution.target"] == "kubernetes-application"


def test_a_cluster_may_have_owners_which_are_named_completely() -> None:
    owner = "apiVersion:apps/v1,kind:Deployment,name:platform,uid:7,blockOwnerDeletion:true"
    objects = session(**{"kubernetes.jobmanager.owner.reference": owner})
    (found,) = objects.deployment["metadata"]["ownerReferences"]
    assert found["uid"] == "7" and found["blockOwnerDeletion"] is True
    with pytest.raises(ConfigurationError, match="uid is missing"):
        session(**{"kubernetes.jobmanager.owner.reference": "apiVersion:v1,kind:ConfigMap,name:a"})


def test_labels_of_users_do_not_replace_those_that_select() -> None:
    objects = session(**{"kubernetes.internal-service.labels": "team:data,app:other"})
    labels = of(objects, "services", "demo")["metadata"]["labels"]
    assert labels["team"] == "data" and labels["app"] == "demo"


def test_pods_may_use_the_network_of_their_nodes() -> None:
    spec = session(**{"kubernetes.hostnetwork.enabled": "true"}).deployment["spec"]["template"]["spec"]
    assert spec["hostNetwork"] is True and spec["dnsPolicy"] == "ClusterFirstWithHostNet"
