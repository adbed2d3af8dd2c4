"""Prometheus accepts the scrape configurations and rules of deploy/monitoring, and its dashboard fits to them."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_file import ROOT, services
from monitoring_names import DASHBOARD, MONITORING, RULES, used_names
from prometheus_server import require_prometheus

from flinkpy.common.addresses import parse_port_range
from flinkpy.configuration import load_configuration
from flinkpy.security import PEER_NAME

SCRAPE_CONFIGURATIONS = ["prometheus-compose.yml", "prometheus-kubernetes.yml"]
KUBERNETES = ROOT / "deploy" / "kubernetes"


def promtool(*arguments: str) -> str:
    """Runs promtool in the directory and returns its output. Fails if it finds a mistake."""
    require_prometheus()
    done = subprocess.run(["promtool", *arguments], cwd=MONITORING, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def scrape_jobs(name: str) -> dict[str, Any]:
    document = yaml.safe_load((MONITORING / name).read_text())
    return {job["job_name"]: job for job in document["scrape_configs"]}


def addresses(job: dict[str, Any]) -> set[tuple[str, int]]:
    """Returns the hosts and ports that a job of Prometheus scrapes."""
    return {(host, entry["port"]) for entry in job["dns_sd_configs"] for host in entry["names"]}


def test_rules_are_valid_and_fire_when_they_should() -> None:
    promtool("check", "rules", "--lint-fatal", RULES.name)
    assert "SUCCESS" in promtool("test", "rules", "rules_test.yml")


def test_every_alert_is_tested() -> None:
    alerts = re.findall(r"alert: (\w+)", RULES.read_text())
    tests = (MONITORING / "rules_test.yml").read_text()
    assert [alert for alert in alerts if alert not in tests] == []


@pytest.mark.parametrize("name", SCRAPE_CONFIGURATIONS)
def test_prometheus_accepts_the_scrape_configuration(name: str, tmp_path: Path) -> None:
    # promtool looks for the files that it names.
    text = (MONITORING / name).read_text()
    for path in set(re.findall(r"/etc/\S+?\.(?:pem|yml)", text)):
        copied = tmp_path / Path(path).name
        if path.endswith(".yml"):
            shutil.copy(MONITORING / copied.name, copied)
        else:
            copied.touch()
        text = text.replace(path, str(copied))
    (tmp_path / name).write_text(text)
    assert "SUCCESS" in promtool("check", "config", str(tmp_path / name))


def test_prometheus_scrapes_all_ports_of_all_services_of_compose() -> None:
    settings = load_configuration(ROOT / "deploy/compose/config.yaml", ()).to_dict()
    first, *others = parse_port_range(settings["metrics.reporter.prometheus.port"], "port")
    assert settings["metrics.reporter.prometheus.host"] == "0.0.0.0"
    hosts = {one.name for one in services().values() if one.is_ours and one.is_default and one.flinkpy_arguments}
    dispatchers = {host for host in hosts if host.startswith("dispatcher")}
    jobs = scrape_jobs(SCRAPE_CONFIGURATIONS[0])
    assert addresses(jobs["flinkpy-services"]) == {(host, first) for host in hosts}
    assert addresses(jobs["flinkpy-jobmasters"]) == {(host, port) for host in dispatchers for port in others}


def test_prometheus_may_scrape_all_ports_of_all_services_of_kubernetes() -> None:
    configuration = yaml.safe_load_all((KUBERNETES / "configuration.yaml").read_text())
    config = yaml.safe_load(next(iter(configuration))["data"]["config.yaml"])
    first, *others = parse_port_range(config["metrics"]["reporter.prometheus"]["port"], "port")
    jobs = scrape_jobs(SCRAPE_CONFIGURATIONS[1])
    names = {f"{name}.flinkpy.svc.cluster.local" for name in ("dispatcher", "resourcemanager", "taskexecutor")}
    assert addresses(jobs["flinkpy-services"]) == {(name, first) for name in names}
    dispatcher = "dispatcher.flinkpy.svc.cluster.local"
    assert addresses(jobs["flinkpy-jobmasters"]) == {(dispatcher, port) for port in others}
    policy = yaml.safe_load((MONITORING / "kubernetes-network-policy.yaml").read_text())
    importlib.import_module("kubernetes_validate").validate(policy, "1.33", strict=True)
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": first, "endPort": others[-1]}]


@pytest.mark.parametrize("name", SCRAPE_CONFIGURATIONS)
def test_prometheus_shows_a_certificate_and_checks_the_name_of_services(name: str) -> None:
    for job in scrape_jobs(name).values():
        assert job["scheme"] == "https" and job["tls_config"]["server_name"] == PEER_NAME
        assert job["tls_config"]["cert_file"].endswith("/client.pem")


def test_files_of_the_kustomization_exist() -> None:
    kustomization = yaml.safe_load((MONITORING / "kustomization.yaml").read_text())
    named = [
        *kustomization["resources"],
        *(path for one in kustomization["configMapGenerator"] for path in one["files"]),
    ]
    assert [path for path in named if not (MONITORING / path).is_file()] == []


def test_the_dashboard_is_one_that_grafana_loads() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    assert rows == ["Cluster", "Jobs", "Checkpoints", "Back-pressure", "State"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for target in panel.get("targets", ()):
            assert set(re.findall(r"\$\{?(\w+)", json.dumps(target))) <= variables
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    others = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels]
    assert len(set(others)) == len(others), "two panels at one place"


def test_expressions_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    """promtool parses them as rules."""
    expressions = [
        target["expr"].replace("$job_name", ".*")
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel.get("targets", ())
    ]
    assert len(expressions) > 30
    rules = [{"record": f"expression{number}", "expr": one} for number, one in enumerate(expressions)]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", str(path))


def test_names_of_metrics_are_found_in_expressions() -> None:
    names = used_names()
    assert {"flink_jobmanager_job_uptime", "flink_taskmanager_job_task_numRecordsInPerSecond"} <= names
    assert len(names) > 30
