"""The options of the REST server."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ConfigurationError
from flinkpy.rest.options import parse_port_range, read_rest_options


@pytest.mark.parametrize(
    "text, ports",
    [("8081", (8081,)), ("0", (0,)), ("50100-50102,8081", (50100, 50101, 50102, 8081)), (" 1 , 1-2 ", (1, 2))],
)
def test_port_ranges(text: str, ports: tuple[int, ...]) -> None:
    assert parse_port_range(text) == ports


@pytest.mark.parametrize("text", ["", "x", "2-1", "0-5", "65536", "1-", "-1", "1,,2", "1_0", "٣", "99999999999"])
def test_bad_port_ranges_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"rest\.bind-port"):
        parse_port_range(text)


def test_a_chosen_port_is_the_only_one() -> None:
    by_default, chosen = read_rest_options({}), read_rest_options({"rest.port": "9000"})
    assert by_default is not None and by_default.ports == (8081,) and by_default.takes_free_port
    assert chosen is not None and chosen.ports == (9000,) and not chosen.takes_free_port


def test_the_bind_port_has_precedence() -> None:
    options = read_rest_options({"rest.port": "9000", "rest.bind-port": "9001-9002"})
    assert options is not None and options.ports == (9001, 9002)


def test_the_server_can_be_switched_off() -> None:
    assert read_rest_options({"rest.enabled": "false"}) is None


def test_no_authentication_is_for_loopback_only() -> None:
    assert read_rest_options({"rest.authentication": "none"}) is not None
    with pytest.raises(ConfigurationError, match="only for the loopback address"):
        read_rest_options({"rest.authentication": "none", "rest.bind-address": "0.0.0.0"})


def test_the_address_of_rpc_is_not_that_of_a_server_on_loopback() -> None:
    rpc = {"jobmanager.rpc.address": "host.example"}
    for extra, host in (
        ({}, None),
        ({"rest.bind-address": "0.0.0.0"}, "host.example"),
        ({"rest.address": "proxy.example"}, "proxy.example"),
    ):
        options = read_rest_options({**rpc, **extra})
        assert options is not None and options.advertised_host == host
