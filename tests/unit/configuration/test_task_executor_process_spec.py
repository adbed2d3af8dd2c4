"""The memory of a TaskExecutor is derived from the options by Flink's rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkpy.common.cgroup import memory_limit_bytes
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration.external_resources import ExternalResource, external_resources
from flinkpy.configuration.task_executor_process_spec import process_spec, total_resource, with_derived_sizes

MB = 1 << 20


def options(**entries: str) -> Configuration:
    configuration = Configuration()
    for key, value in entries.items():
        configuration.set_string("taskmanager.memory." + key.replace("__", "-").replace("_", "."), value)
    return configuration


def test_the_shipped_process_size_is_divided_as_by_flink() -> None:
    spec = process_spec(options(process_size="1728m"))
    assert spec is not None
    # The figures that Flink 2.3 logs for its config.yaml.
    assert (spec.total_flink, spec.interpreter, spec.reserves) == (1280 * MB, 256 * MB, 192 * MB)
    assert (spec.managed, spec.network) == (512 * MB, 128 * MB)
    assert (spec.task_heap, spec.total_process) == (384 * MB, 1728 * MB)


def test_sizes_of_task_heap_and_managed_memory_determine_the_total() -> None:
    spec = process_spec(options(task_heap_size="1g", managed_size="512m"))
    assert spec is not None and (spec.task_heap, spec.managed) == (1024 * MB, 512 * MB)
    assert spec.network == int((256 + 1536) * MB * 0.1 / 0.9)
    assert spec.total_process == spec.total_flink + spec.interpreter + spec.reserves


def test_without_a_total_there_is_no_limit() -> None:
    assert process_spec(options(managed_size="100m")) is None
    unlimited = options(managed_size="100m")
    assert with_derived_sizes(unlimited) is unlimited
    assert total_resource(unlimited).managed_bytes == 100 * MB


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"flink_size": "1g", "managed_size": "2g"}, r"Managed Memory \(2048.000mb .*exceed configured Total Flink"),
        ({"process_size": "300m"}, r"JVM Metaspace \(256.000mb .*exceed configured Total Process Memory \(300"),
        (
            {"flink_size": "1g", "task_heap_size": "400m", "managed_size": "64m", "network_max": "70m"},
            r"Derived Network Memory \(304.000mb .*is not in configured range",
        ),
        ({"flink_size": "1g", "process_size": "1100m"}, "exceed configured Total Process Memory"),
        ({"flink_size": "1g", "process_size": "5g"}, "Derived JVM Overhead"),
    ],
)
def test_contradicting_sizes_are_refused_with_their_sum(entries: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        process_spec(options(**entries))


def test_derived_sizes_reach_the_readers_of_managed_and_network_memory() -> None:
    entries = with_derived_sizes(options(process_size="1728m")).to_dict()
    assert entries["taskmanager.memory.managed.size"] == f"{512 * MB} bytes"
    assert entries["taskmanager.memory.network.min"] == f"{128 * MB} bytes"


def test_slots_share_cores_memory_and_external_resources() -> None:
    configuration = options(process_size="1728m")
    configuration.set_string("taskmanager.cpu.cores", "2.5")
    configuration.set_string("external-resources", "gpu; fpga")
    configuration.set_string("external-resource.gpu.amount", "2")
    configuration.set_string("external-resource.fpga.amount", "1")
    configuration.set_string("external-resource.gpu.param.discovery-script.path", "/x.sh")
    total = total_resource(configuration)
    assert (total.cpu_cores, total.task_heap_bytes, total.network_bytes) == (2.5, 384 * MB, 128 * MB)
    assert total.external == (("fpga", 1.0), ("gpu", 2.0))
    assert external_resources(configuration)[0] == ExternalResource("gpu", 2, None, {"discovery-script.path": "/x.sh"})


def test_an_external_resource_without_an_amount_is_refused() -> None:
    configuration = options()
    configuration.set_string("external-resources", "gpu")
    with pytest.raises(ConfigurationError, match=r"external-resource\.gpu\.amount. must be a positive whole number"):
        external_resources(configuration)


@pytest.mark.parametrize(
    ("group", "files", "limit"),
    [
        ("0::/pod/task", {"pod/memory.max": "1000", "pod/task/memory.max": "max"}, 1000),
        ("0::/elsewhere", {"memory.max": "700"}, 700),
        ("5:cpu,memory:/pod", {"memory/pod/memory.limit_in_bytes": "500"}, 500),
        ("5:memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("0::/", {}, None),
    ],
)
def test_the_lowest_limit_of_the_control_groups_counts(
    tmp_path: Path, group: str, files: dict[str, str], limit: int | None
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(group + "\n")
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert memory_limit_bytes(tmp_path) == limit
