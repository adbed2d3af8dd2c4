"""flinkpy and the container engines accept Dockerfile, docker-compose.yml and the Kubernetes manifests."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from compose_file import COMPOSE_FILE, ENTRYPOINT, ROOT, ComposeService, document, services
from compose_program import compose_command
from requirements import require

import flinkpy
from flinkpy.cli.health import SERVICES
from flinkpy.cli.main import flinkpy as command_line
from flinkpy.common.errors import ConfigurationError, SecretError
from flinkpy.configuration import load_configuration, validate
from flinkpy.configuration.registry import implemented_options
from flinkpy.metrics.reporters import create_reporter
from flinkpy.security import ClusterSecret, SecurityContext

KUBERNETES = ROOT / "deploy" / "kubernetes"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
UNPRIVILEGED = "9999"


def ours() -> list[ComposeService]:
    return [service for service in services().values() if service.is_ours]


def parsed(arguments: list[str]) -> click.Context:
    """Parses the command line without running it."""
    context = command_line.make_context("flinkpy", [*arguments], resilient_parsing=False)
    name, command, rest = command_line.resolve_command(context, [*context._protected_args, *context.args])
    assert command is not None, name
    return command.make_context(name, rest, parent=context)


def check_configuration(path: Path, arguments: list[str]) -> Any:
    """Checks the configuration file and command line of a service: flinkpy must know every key."""
    configuration = load_configuration(path, parsed(arguments).params["properties"])
    validate(configuration)
    check_keys(configuration)
    return configuration


def check_keys(configuration: Any) -> None:
    """Checks that flinkpy knows every key. Reporters have options of their own."""
    settings = configuration.to_dict()
    prefix = "metrics.reporter."
    assert {key for key in settings if not key.startswith(prefix)} <= set(implemented_options())
    for name in filter(None, settings.get("metrics.reporters", "").split(",")):
        options = {
            key.removeprefix(f"{prefix}{name}."): value for key, value in settings.items() if key.startswith(prefix)
        }
        reporter = create_reporter(name, options.pop("factory.class"))
        assert set(options) <= {option.key for option in reporter.OPTIONS}
        reporter.open(options)


# --- docker-compose.yml


@pytest.mark.parametrize("service", ours(), ids=lambda service: service.name)
def test_every_command_exists_in_flinkpy(service: ComposeService) -> None:
    arguments = service.flinkpy_arguments
    if arguments is None or arguments == ["--help"]:
        return
    configuration = check_configuration(ROOT / configuration_of(service), arguments)
    # Ports that it binds use TLS.
    assert configuration.get_string("security.ssl.internal.enabled", "") == "true"
    assert "insecure" not in " ".join(arguments)
    host = arguments[1].partition("=")[2] if len(arguments) > 1 else None
    assert host in (None, service.settings.get("hostname")), "the service has its own name"


def configuration_of(service: ComposeService) -> str:
    (source,) = [mount.source for mount in service.mounts if mount.target == "/etc/flinkpy/config.yaml"]
    assert source is not None
    return source


#: Volumes with keys and secrets, with the services that may see them. Only the service that makes certificates sees the
#: volume of the authority.
CONFIDENTIAL = {
    "authority": {"init"},
    "security": {"init", "dispatcher-1", "dispatcher-2", "resourcemanager-1", "resourcemanager-2", "taskexecutor"},
    "client-security": {"init", "client"},
    "spark-security": {"init", "taskexecutor", "spark-master", "spark-worker"},
    "zookeeper-security": {"init", "zookeeper"},
    "prometheus-security": {"init", "prometheus"},
    "grafana-security": {"init", "grafana"},
}


@pytest.mark.parametrize("volume", CONFIDENTIAL)
def test_only_services_that_need_a_secret_have_it(volume: str) -> None:
    seen = {service.name for service in services().values() if volume in [mount.source for mount in service.mounts]}
    assert seen == CONFIDENTIAL[volume]


def test_clients_of_compose_have_a_token_and_no_secret() -> None:
    client = services()["client"]
    configuration = load_configuration(ROOT / configuration_of(client), ())
    validate(configuration)
    assert set(configuration.to_dict()) <= set(implemented_options())
    check_client(configuration.to_dict(), [mount.target for mount in client.mounts])
    assert "FLINKPY_SECRET_FILE" not in client.environment
    dispatchers = configuration.to_dict()["jobmanager.rpc.address"].split(",")
    assert dispatchers == [f"{name}:6123" for name in services() if name.startswith("dispatcher-")]


def check_client(settings: dict[str, str], mounted: list[str]) -> None:
    """Checks that a client has a token and that its configuration names only files of clients."""
    assert "security.secret-file" not in settings
    named = ["security.token-file", "security.ssl.internal.keystore", "security.ssl.internal.truststore"]
    assert {os.path.dirname(settings[key]) for key in named} == {"/etc/flinkpy/client"}
    assert os.path.basename(settings[named[1]]) == "client.pem"
    assert "/etc/flinkpy/client" in mounted
    assert "/etc/flinkpy/security" not in mounted
    # Clients cannot look up leaders in ZooKeeper, because its nodes are open only with the secret.
    assert "high-availability.type" not in settings


def test_no_network_of_compose_leads_outside_and_clients_and_spark_reach_what_they_need() -> None:
    networks = document()["networks"]
    for name, settings in networks.items():
        if name == "published":
            assert settings["driver_opts"] == {"com.docker.network.bridge.enable_ip_masquerade": "false"}
        else:
            assert settings == {"internal": True}
    members = {name: {s.name for s in services().values() if name in s.settings["networks"]} for name in networks}
    assert members["clients"] == {"client", "dispatcher-1", "dispatcher-2"}
    assert members["published"] == {service.name for service in services().values() if service.ports}
    assert members["monitoring"] == {"prometheus", "grafana"}
    assert members["spark"] == {"taskexecutor", "spark-master", "spark-worker"}
    assert not members["cluster"] & {"client", "spark-master", "spark-worker", "grafana"}


def test_the_web_page_of_the_spark_master_is_not_open_to_the_network() -> None:
    master = services()["spark-master"]
    assert master.environment["SPARK_LOCAL_IP"] == "127.0.0.1"  # the address of its web page
    assert master.command[master.command.index("--host") + 1] == "spark-master"  # the address of its port for workers


@pytest.mark.parametrize("service", services().values(), ids=lambda service: service.name)
def test_every_service_has_the_least_privileges(service: ComposeService) -> None:
    settings = service.settings
    assert settings["read_only"] is True
    assert settings["cap_drop"] == ["ALL"]
    assert settings["security_opt"] == ["no-new-privileges:true"]
    assert settings["pids_limit"] <= 1024
    assert re.fullmatch(r"\d+[mg]", settings["mem_limit"])
    assert settings["user"].partition(":")[0] not in ("", "0", "root")
    assert not set(settings) & {"privileged", "cap_add", "network_mode", "pid", "ipc", "devices", "userns_mode"}
    assert [mount for mount in service.mounts if "docker.sock" in (mount.source or "")] == []
    # Files of this project are mounted read-only.
    assert [mount for mount in service.mounts if mount.source and not mount.is_named and mount.is_writable] == []


@pytest.mark.parametrize("service", services().values(), ids=lambda service: service.name)
def test_ports_are_published_on_the_loopback_address_only(service: ComposeService) -> None:
    for port in service.ports:
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)
    published = [port.split(":")[1] for each in services().values() for port in each.ports]
    assert len(set(published)) == len(published)


@pytest.mark.parametrize("service", services().values(), ids=lambda service: service.name)
def test_images_are_pinned_and_mounted_files_exist(service: ComposeService) -> None:
    image, _, tag = service.settings["image"].partition(":")
    assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag), f"{image} has the tag {tag!r}"
    if service.is_ours:
        assert tag == flinkpy.__version__
    for mount in service.mounts:
        if mount.is_named:
            assert mount.source in document()["volumes"]
        elif mount.source is not None:
            assert (ROOT / mount.source).exists(), mount.source


def test_services_write_only_to_volumes_and_scratch_space() -> None:
    """Temporary files are below /tmp or in a volume of the service."""
    configuration = load_configuration(ROOT / "deploy/compose/config.yaml", ())
    work = configuration.get_string("io.tmp.dirs", "")
    for service in ours():
        assert list(service.scratch) == ["/tmp"]
        if service.flinkpy_arguments not in (None, ["--help"]):
            assert [mount.source for mount in service.mounts if mount.target == work] == [None]


def test_health_checks_use_the_addresses_of_their_services() -> None:
    ports = {"dispatcher": 6123, "resourcemanager": 6124, "taskexecutor": 6122}
    for service in ours():
        if service.flinkpy_arguments in (None, ["--help"]):
            continue
        verb = service.flinkpy_arguments[0]
        assert service.environment["FLINKPY_HEALTH_SERVICE"] == verb
        assert service.environment["FLINKPY_HEALTH_ADDRESS"] == f"127.0.0.1:{ports[verb]}"
        assert verb in SERVICES
        assert set(service.settings["depends_on"]) == {"init", "zookeeper"}


def test_every_master_has_a_standby() -> None:
    verbs = [service.flinkpy_arguments[0] for service in ours() if service.flinkpy_arguments]
    assert (verbs.count("dispatcher"), verbs.count("resourcemanager")) == (2, 2)
    assert services()["taskexecutor"].replicas == 2
    assert "container_name" not in services()["taskexecutor"].settings, "a named service cannot be scaled"
    assert "hostname" not in services()["taskexecutor"].settings
    assert services()["taskexecutor"].ports == []


def test_docker_compose_accepts_the_file() -> None:
    command = compose_command()
    require(
        "compose", command is not None, "NOT TESTED: `docker compose config` (docs/deployment.md says how to get it)"
    )
    assert command is not None
    options = ["-f", str(COMPOSE_FILE), "--profile", "client", "--profile", "monitoring", "config", "--format", "json"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no warnings"
    understood = json.loads(done.stdout)["services"]
    assert set(understood) == set(services())
    for name, service in services().items():
        # `compose_file` and Compose resolve the file to the same settings.
        assert understood[name].get("command") == (service.settings.get("command") or None) or not understood[name].get(
            "command"
        )
        assert understood[name].get("environment", {}) == service.environment
        assert {port["host_ip"] for port in understood[name].get("ports", ())} <= {"127.0.0.1"}


# --- Dockerfile


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return [line.removeprefix(name).strip() for line in joined.splitlines() if line.startswith(f"{name} ")]


def test_the_image_is_pinned_unprivileged_and_probed() -> None:
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-\w+", instructions("ARG")[0])
    assert [line.split()[0] for line in instructions("FROM")] == ["${BASE}", "${BASE}"]
    assert instructions("USER") == [f"{UNPRIVILEGED}:{UNPRIVILEGED}"]
    assert json.loads(instructions("ENTRYPOINT")[0]) == list(ENTRYPOINT)
    probe = json.loads(instructions("HEALTHCHECK")[0].partition("CMD ")[2])
    assert probe[0] == "flinkpy"
    assert probe[1] == "health"
    assert "ADD" not in {line.partition(" ")[0] for line in DOCKERFILE.splitlines()}
    assert "latest" not in DOCKERFILE
    # flinkpy supports the Python version of the image, and no text mentions another.
    version = re.search(r"python:(3\.\d+)", DOCKERFILE)
    assert version is not None
    assert set(re.findall(r"python(3\.\d+)", DOCKERFILE)) == {version.group(1)}


def test_the_image_is_built_from_files_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    defaults = {line.partition("=")[2] for line in instructions("ARG") if line.startswith("EXTRAS=")}
    assert len(defaults) == 1
    for extras in (*defaults, *(service.settings["build"]["args"]["EXTRAS"] for service in ours())):
        assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert f"VERSION={project['version']}" in instructions("ARG")
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for line in instructions("COPY"):
        for source in line.split()[:-1]:
            if not line.startswith("--from"):
                assert (ROOT / source).exists(), source
                assert f"!{source.removeprefix('./')}" in ignored


def test_java_is_only_in_images_for_spark() -> None:
    """A shell runs the line that chooses packages."""
    chosen = re.search(r"\$\((case .*esac)\)", DOCKERFILE)
    assert chosen is not None
    for extras, has_java in (("rocksdb,prometheus", False), ("tls,spark", True), ("all", True), ("", False)):
        done = subprocess.run(
            ["sh", "-c", chosen.group(1)],
            env={**os.environ, "EXTRAS": extras},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ("jre" in done.stdout) is has_java


def test_directories_of_volumes_belong_to_the_user_of_the_image() -> None:
    """An empty named volume gets the owner of the directory it covers."""
    made = re.search(r"install -d -o (\d+) -g (\d+) -m 0700((?:\s+/\S+)+)", DOCKERFILE.replace("\\\n", " "))
    assert made is not None
    assert made.group(1) == made.group(2) == UNPRIVILEGED
    targets = {mount.target for service in ours() for mount in service.mounts if mount.is_named or not mount.source}
    assert targets <= set(made.group(3).split())


# --- Kubernetes


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(path.name for path in KUBERNETES.glob("*.yaml") if path.stem != "kustomization")
    for name in listed:
        for manifest in yaml.safe_load_all((KUBERNETES / name).read_text()):
            yield f"{manifest['kind']}/{manifest['metadata']['name']}", manifest


MANIFESTS = dict(manifests())
WORKLOADS = {name: each for name, each in MANIFESTS.items() if each["kind"] in ("StatefulSet", "Deployment")}
SERVICES_OF_OURS = ["StatefulSet/dispatcher", "StatefulSet/resourcemanager", "Deployment/taskexecutor"]


def pod(name: str) -> dict[str, Any]:
    found: dict[str, Any] = WORKLOADS[name]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("name", list(MANIFESTS))
def test_the_schemas_of_kubernetes_accept_each_manifest(name: str) -> None:
    kubernetes_validate = importlib.import_module("kubernetes_validate")
    kubernetes_validate.validate(MANIFESTS[name], "1.33", strict=True)


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_pods_meet_the_restricted_standard(name: str) -> None:
    spec = pod(name)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert set(container["resources"]) == {"requests", "limits"}
        assert re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+", container["image"])
        volumes = {volume["name"] for volume in spec["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in WORKLOADS[name]["spec"].get("volumeClaimTemplates", ())}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    assert not set(spec) & {"hostNetwork", "hostPID", "hostIPC"}


@pytest.mark.parametrize("name", SERVICES_OF_OURS)
def test_pods_run_what_flinkpy_accepts_and_are_probed(name: str, tmp_path: Path) -> None:
    container = pod(name)["containers"][0]
    config = tmp_path / "config.yaml"
    config.write_text(MANIFESTS["ConfigMap/flinkpy-configuration"]["data"]["config.yaml"])
    arguments = [word.replace("$(POD_IP)", "10.0.0.7") for word in container["args"]]
    configuration = check_configuration(config, arguments)
    assert configuration.get_string("security.ssl.internal.enabled", "") == "true"
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment["FLINKPY_HEALTH_SERVICE"] == arguments[0]
    port = container["ports"][0]["containerPort"]
    assert environment["FLINKPY_HEALTH_ADDRESS"] == f"$(POD_IP):{port}"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        words = container[probe]["exec"]["command"]
        assert words[0] == "flinkpy"
        assert parsed([*words[1:], arguments[0]]).params["expect"] == (
            "ready" if probe == "readinessProbe" else "alive"
        )
    assert WORKLOADS[name]["spec"]["replicas"] == 2
    disruption = MANIFESTS[f"PodDisruptionBudget/{name.partition('/')[2]}"]["spec"]
    labels = WORKLOADS[name]["spec"]["template"]["metadata"]["labels"]
    for selector in (WORKLOADS[name]["spec"]["selector"], disruption["selector"]):
        assert selector["matchLabels"].items() <= labels.items()
    assert MANIFESTS[f"Service/{name.partition('/')[2]}"]["spec"]["selector"].items() <= labels.items()


def test_only_named_peers_reach_a_pod() -> None:
    policies = {name: each["spec"] for name, each in MANIFESTS.items() if each["kind"] == "NetworkPolicy"}
    assert policies["NetworkPolicy/deny-all"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name, spec in policies.items():
        assert spec["policyTypes"] == [kind for kind in ("Ingress", "Egress") if kind in spec["policyTypes"]]
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for rule in spec.get(direction, ()):
                assert rule[peers]
                for peer in rule[peers]:
                    assert peer["podSelector"], "an empty selector is everybody"
                    assert set(peer) == {"podSelector"} or name == "NetworkPolicy/name-service"


#: The needed connections (from, to, port), where `None` stands for any. All others are refused.
WAYS = [
    ("client", "dispatcher", 6123, True),
    ("client", "dispatcher", 40000, False),
    ("client", "resourcemanager", 6124, False),
    ("client", "taskexecutor", 6121, False),
    ("client", "zookeeper", 2281, False),
    ("dispatcher", "taskexecutor", 6122, True),
    ("taskexecutor", "dispatcher", 40000, True),
    ("taskexecutor", "taskexecutor", 6121, True),
    ("resourcemanager", "zookeeper", 2281, True),
    ("taskexecutor", "zookeeper", 2888, False),
    ("zookeeper", "zookeeper", 3888, True),
    ("zookeeper", "dispatcher", 6123, False),
    ("taskexecutor", "outside", 443, False),
    ("outside", "dispatcher", 6123, False),
]


@pytest.mark.parametrize(("source", "target", "port", "is_open"), WAYS)
def test_network_policies_allow_the_needed_connections(source: str, target: str, port: int, is_open: bool) -> None:
    assert (may_send(source, target, port) and may_receive(target, source, port)) is is_open


def labels_of(component: str) -> dict[str, str]:
    if component == "outside":
        return {"app.kubernetes.io/name": "something else"}
    kind = "Deployment" if component in ("client", "taskexecutor") else "StatefulSet"
    labels: dict[str, str] = WORKLOADS[f"{kind}/{component}"]["spec"]["template"]["metadata"]["labels"]
    return labels


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    expressions = selector.get("matchExpressions", ())
    assert all(expression["operator"] == "In" for expression in expressions)
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(expression["key"]) in expression["values"] for expression in expressions
    )


def may_send(source: str, target: str, port: int) -> bool:
    return passes(source, target, port, "Egress", "to")


def may_receive(target: str, source: str, port: int) -> bool:
    return passes(target, source, port, "Ingress", "from")


def passes(pod_name: str, peer: str, port: int, direction: str, peers: str) -> bool:
    """Applies the policies as a network plugin does: those that select a pod are combined."""
    specs = [each["spec"] for each in MANIFESTS.values() if each["kind"] == "NetworkPolicy"]
    selected = [s for s in specs if direction in s["policyTypes"] and selects(s["podSelector"], labels_of(pod_name))]
    if pod_name == "outside":
        return True
    assert selected, "deny-all selects every pod"
    return any(
        any("namespaceSelector" not in each and selects(each["podSelector"], labels_of(peer)) for each in rule[peers])
        and ("ports" not in rule or any(allowed["port"] == port for allowed in rule["ports"]))
        for spec in selected
        for rule in spec.get(direction.lower(), ())
    )


def test_clients_of_kubernetes_have_a_token_and_no_secret(tmp_path: Path) -> None:
    volumes = {volume["name"]: volume for volume in pod("Deployment/client")["volumes"]}
    secrets = [volume["secret"]["secretName"] for volume in volumes.values() if "secret" in volume]
    assert secrets == ["flinkpy-client-security"]
    assert set(MANIFESTS["Secret/flinkpy-client-security"]["stringData"]) == {"token", "client.pem", "ca.pem"}
    (name,) = [volume["configMap"]["name"] for volume in volumes.values() if "configMap" in volume]
    config = tmp_path / "config.yaml"
    config.write_text(MANIFESTS[f"ConfigMap/{name}"]["data"]["config.yaml"])
    settings = load_configuration(config, ())
    assert set(settings.to_dict()) <= set(implemented_options())
    check_client(
        settings.to_dict(), [mount["mountPath"] for mount in pod("Deployment/client")["containers"][0]["volumeMounts"]]
    )
    replicas = WORKLOADS["StatefulSet/dispatcher"]["spec"]["replicas"]
    pods = ",".join(f"dispatcher-{number}.dispatcher:6123" for number in range(replicas))
    assert settings.to_dict()["jobmanager.rpc.address"] == pods


def test_placeholders_of_secrets_are_refused(tmp_path: Path) -> None:
    data = MANIFESTS["Secret/flinkpy-security"]["stringData"]
    for name, value in data.items():
        (tmp_path / name).write_text(value)
        (tmp_path / name).chmod(0o440)
    with pytest.raises(SecretError, match="does not hold a secret"):
        ClusterSecret.load(tmp_path / "secret")
    ClusterSecret.load_or_create(tmp_path / "real")
    config = load_configuration(
        None,
        {
            "security.secret-file": str(tmp_path / "real"),
            "security.ssl.internal.enabled": "true",
            "security.ssl.internal.keystore": str(tmp_path / "service.pem"),
            "security.ssl.internal.truststore": str(tmp_path / "ca.pem"),
        },
    )
    with pytest.raises(ConfigurationError, match=r"service\.pem"):
        SecurityContext.of_service(config)
