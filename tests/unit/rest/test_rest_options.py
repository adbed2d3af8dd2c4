"""The options of the REST server."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ConfigurationError
from flinkpy.rest.options import read_rest_options


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


def test_limits_of_age_follow_the_refresh_interval_unless_set() -> None:
    options = read_rest_options({"web.refresh-interval": "7 s"})
    assert options is not None and (options.max_job_age_ms, options.max_checkpoints_age_ms) == (7_000, 7_000)
    settings = {"rest.cache.execution-graph.timeout": "1 s", "rest.cache.checkpoint-statistics.timeout": "9 s"}
    options = read_rest_options(settings)
    assert options is not None and (options.max_job_age_ms, options.max_checkpoints_age_ms) == (1_000, 9_000)
