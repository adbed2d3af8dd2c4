"""docker-compose.yml and Dockerfile: there is no container engine here, but every command in them can be parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from flinkpy.cli.main import flinkpy

ROOT = Path(__file__).resolve().parents[3]
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]


def parse(arguments: list[str]) -> dict[str, Any]:
    """The parameters that the command line would call its verb with."""
    context = click.Context(flinkpy)
    command = flinkpy.get_command(context, arguments[0])
    assert command is not None, arguments[0]
    return command.make_context(arguments[0], arguments[1:], parent=context).params


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_runs_a_command_that_exists(name: str) -> None:
    assert parse(list(SERVICES[name]["command"]))["host"] == "0.0.0.0"


def test_the_options_of_the_services_are_valid() -> None:
    from flinkpy.configuration import load_configuration, validate

    for service in SERVICES.values():
        validate(load_configuration(None, parse(list(service["command"]))["properties"]))


def test_the_services_are_told_addresses_that_the_others_have() -> None:
    for service in SERVICES.values():
        manager = parse(list(service["command"])).get("resourcemanager")
        if manager is not None:
            host, _, port = manager.partition(":")
            assert SERVICES[host]["hostname"] == host
            assert f"--port={port}" in SERVICES[host]["command"]


def test_ports_are_published_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_there_are_two_task_executors() -> None:
    assert SERVICES["taskexecutor"]["deploy"]["replicas"] >= 2


def test_the_image_does_not_run_as_root() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert lines.index("USER flinkpy") < next(i for i, line in enumerate(lines) if line.startswith("ENTRYPOINT"))
