"""The addresses of YARN are read from Hadoop's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkpy.spark.yarn_addresses import resource_manager_addresses

_MANAGER = "yarn.resourcemanager"


def write(directory: Path, properties: dict[str, str]) -> None:
    entries = [
        f"<property><name>{_MANAGER}.{name}</name><value> {value} </value></property>"
        for name, value in properties.items()
    ]
    (directory / "yarn-site.xml").write_text(f"<configuration>{''.join(entries)}</configuration>")


@pytest.mark.parametrize(
    ("properties", "addresses"),
    [
        ({"address": "one:1234"}, ["one:1234"]),
        ({"address": "one"}, ["one:8032"]),
        ({"hostname": "one"}, ["one:8032"]),
        (
            {"ha.enabled": "true", "ha.rm-ids": "a, b", "hostname.a": "one", "address.b": "two:1"},
            ["one:8032", "two:1"],
        ),
        ({"address": "${hostname}:8032"}, []),
        ({"scheduler.class": "x"}, []),
    ],
)
def test_addresses_are_those_of_all_resource_managers(
    tmp_path: Path, properties: dict[str, str], addresses: list[str]
) -> None:
    write(tmp_path, properties)
    assert resource_manager_addresses(tmp_path) == addresses


@pytest.mark.parametrize("text", [None, "not XML"])
def test_a_configuration_that_cannot_be_read_names_no_address(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "yarn-site.xml").write_text(text)
    assert resource_manager_addresses(tmp_path) == []
