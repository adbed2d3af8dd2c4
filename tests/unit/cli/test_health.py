"""`flinkpy health` without a cluster: usage errors, and the address it would call."""

from __future__ import annotations

import click
import pytest

from flinkpy.cli import main
from flinkpy.cli.health import _configured_address
from flinkpy.common import Configuration
from flinkpy.rpc.health_check import Health


@pytest.fixture(autouse=True)
def _nothing_of_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("FLINKPY_CONF_DIR", "FLINK_CONF_DIR", "FLINKPY_DYNAMIC_PROPERTIES", "FLINKPY_HEALTH_SERVICE"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["blobserver", "127.0.0.1:1"], "blobserver"),
        (["dispatcher", "nowhere"], "host:port"),
        (["jobmaster"], "HOST:PORT"),
        (["taskexecutor"], "taskmanager.rpc.port"),
        ([], "dispatcher"),
        (["dispatcher", "127.0.0.1:1", "--timeout", "0"], "--timeout"),
    ],
)
def test_an_address_that_is_not_configured_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert main.run(["health", *arguments]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("service", "properties", "address"),
    [
        ("dispatcher", {}, "127.0.0.1:6123"),
        ("dispatcher", {"jobmanager.rpc.address": "one", "jobmanager.rpc.port": "7"}, "one:7"),
        ("resourcemanager", {"jobmanager.rpc.address": "one", "resourcemanager.rpc.port": "6124"}, "one:6124"),
        ("taskexecutor", {"taskmanager.host": "two", "taskmanager.rpc.port": "6122"}, "two:6122"),
    ],
)
def test_the_default_address_comes_from_the_configuration(
    service: str, properties: dict[str, str], address: str
) -> None:
    assert _configured_address(service, Configuration.from_dict(properties)) == address


def test_several_configured_dispatchers_are_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="HOST:PORT"):
        _configured_address("dispatcher", Configuration.from_dict({"jobmanager.rpc.address": "one:1,two:2"}))


def test_a_standby_service_is_ready() -> None:
    assert [state for state in Health if state.is_ready] == [Health.SERVING, Health.STANDING_BY]
