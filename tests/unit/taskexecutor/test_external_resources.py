"""A TaskExecutor finds its external resources when it starts, and does not claim ones that it has not."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path

import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError
from flinkpy.common.external_resource import (
    ExternalResourceDriver,
    ExternalResourceDriverFactory,
    ExternalResourceInfo,
)
from flinkpy.configuration.key_notices import keys_without_effect
from flinkpy.taskexecutor.external_resources import discover_external_resources
from flinkpy.taskexecutor.gpu_driver import GPUInfo

FLINKS_FACTORY = "org.apache.flink.externalresource.gpu.GPUDriverFactory"


class Fpga(GPUInfo):
    pass


class FpgaDriver(ExternalResourceDriver):
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def retrieve_resource_info(self, amount: int) -> Set[ExternalResourceInfo]:
        return {Fpga(f"{self._prefix}{number}") for number in range(amount)}


class FpgaFactory(ExternalResourceDriverFactory):
    def create_external_resource_driver(self, parameters: Mapping[str, str]) -> ExternalResourceDriver:
        return FpgaDriver(parameters["prefix"])


def configured(name: str, amount: int, factory: str | None, **parameters: str) -> Configuration:
    prefix = f"external-resource.{name}."
    entries = {"external-resources": name, f"{prefix}amount": str(amount)}
    if factory is not None:
        entries[f"{prefix}driver-factory.class"] = factory
    for key, value in parameters.items():
        entries[f"{prefix}param.{key.replace('__', '.').replace('_', '-')}"] = value
    return Configuration.from_dict(entries)


def script(directory: Path, text: str, mode: int = 0o755) -> str:
    path = directory / "discover.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return str(path)


def test_a_discovery_script_tells_the_indexes_of_the_gpus(tmp_path: Path) -> None:
    path = script(tmp_path, 'echo "3, $1,$2"; echo ignored')
    options = configured("gpu", 2, FLINKS_FACTORY, discovery_script__path=path, discovery_script__args="7 8")
    infos = discover_external_resources(options)["gpu"]
    assert {info.get_property("index") for info in infos} == {"3", "2", "7"}
    assert all(info.get_keys() == {"index"} and info.get_property("x") is None for info in infos)
    assert keys_without_effect(options.to_dict()) == []


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("echo 0", 0o755, r"this host has 1, but `external-resource.gpu.amount` is 2"),
        ("echo no driver >&2; exit 3", 0o755, r"ended with exit code 3: no driver"),
        ("echo 0", 0o644, r"discover.sh is not executable"),
    ],
)
def test_a_task_executor_without_its_gpus_does_not_start(tmp_path: Path, text: str, mode: int, message: str) -> None:
    options = configured("gpu", 2, "gpu", discovery_script__path=script(tmp_path, text, mode))
    with pytest.raises(ConfigurationError, match=message) as raised:
        discover_external_resources(options)
    assert str(raised.value).startswith("external resource gpu: ")


def test_without_a_script_nvidia_smi_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(script(tmp_path, "printf '0\\n1\\n2\\n'")).rename(tmp_path / "nvidia-smi")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert discover_external_resources(configured("gpu", 2, "gpu"))["gpu"] == {GPUInfo("0"), GPUInfo("1")}


def test_users_write_drivers_of_their_own() -> None:
    factory = f"{__name__}:FpgaFactory"
    assert discover_external_resources(configured("fpga", 2, factory, prefix="f"))["fpga"] == {Fpga("f0"), Fpga("f1")}
    with pytest.raises(ConfigurationError, match=r"neither one of .* nor a loadable module:Class"):
        discover_external_resources(configured("fpga", 1, "no.such:Factory"))
    with pytest.raises(ConfigurationError, match="is not an ExternalResourceDriverFactory"):
        discover_external_resources(configured("fpga", 1, "builtins:dict"))


def test_a_resource_without_a_driver_is_only_counted() -> None:
    assert discover_external_resources(configured("licence", 4, None)) == {}
