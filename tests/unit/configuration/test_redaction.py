"""Redaction of sensitive values of a configuration."""

from __future__ import annotations

import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option, validate
from flinkpy.configuration.options import int_option
from flinkpy.configuration.redaction import is_sensitive, redacted


@pytest.mark.parametrize(
    "key",
    [
        "security.ssl.internal.keystore-password",
        "security.ssl.internal.key-password",
        "security.token",
        "s3.secret-key",
        "s3.access-key",
        "fs.s3a.secret.key",
        "fs.azure.account.key.me",
        "properties.sasl.jaas.config",
        "metrics.reporter.x.apikey",
        "metrics.reporter.x.API_KEY",
        "high-availability.zookeeper.client.authorization",
    ],
)
def test_secrets_are_hidden(key: str) -> None:
    assert redacted({key: "geheim", "parallelism.default": "4"}) == {key: "****", "parallelism.default": "4"}


@pytest.mark.parametrize("key", ["jobmanager.rpc.address", "pipeline.name", "security.ssl.internal.keystore", "key.by"])
def test_other_options_are_shown(key: str) -> None:
    assert not is_sensitive(key)


def test_an_error_about_a_secret_does_not_contain_it() -> None:
    option = int_option("some.password", 1, "A number, of all things.")
    with pytest.raises(ConfigurationError) as raised:
        read_option({"some.password": "geheim"}, option)
    assert "geheim" not in str(raised.value) + str(raised.value.details)
    with pytest.raises(ConfigurationError) as raised:
        validate(Configuration.from_dict({"security.tokens": "geheim"}))
    assert "geheim" not in str(raised.value) + str(raised.value.details)
