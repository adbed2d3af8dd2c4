"""The peers that the data plane of a TaskExecutor accepts depend on its security context."""

from __future__ import annotations

import logging

import pytest

from flinkpy.common.errors import ConfigurationError
from flinkpy.network.transport.authenticator import (
    DataPlaneAuthenticator,
    HmacAuthenticator,
    Introductions,
    PeerRole,
    TrustedNetworkAuthenticator,
)
from flinkpy.security import ClusterSecret, SecurityContext
from flinkpy.taskexecutor.entrypoint import data_plane_authenticator

SAID = Introductions(2, 2, 2, "127.0.0.1:7", "consumer", b"c" * 32, "producer", b"p" * 32)


def takes(ours: DataPlaneAuthenticator, theirs: DataPlaneAuthenticator, host: str = "127.0.0.1") -> bool:
    return ours.accepts(host, SAID, PeerRole.CONSUMER, theirs.proof(SAID, PeerRole.CONSUMER))


def test_a_data_plane_with_a_secret_accepts_only_peers_that_know_it() -> None:
    secret = ClusterSecret.generate()
    ours = data_plane_authenticator(SecurityContext.of_secret(secret))
    member = data_plane_authenticator(SecurityContext.of_secret(secret, is_insecure=True))
    stranger = data_plane_authenticator(SecurityContext.of_secret(ClusterSecret.generate()))

    assert isinstance(ours, HmacAuthenticator)
    assert takes(ours, member)
    assert takes(ours, member, "10.0.0.1")
    assert not takes(ours, stranger)
    assert not takes(ours, TrustedNetworkAuthenticator())


def test_a_data_plane_without_a_secret_accepts_everybody_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ours = data_plane_authenticator(SecurityContext.insecure())

    assert takes(ours, TrustedNetworkAuthenticator(), "10.0.0.1")
    assert "INSECURE" in caplog.text
    assert "can run code" in caplog.text


def test_a_data_plane_without_a_secret_must_be_allowed_explicitly() -> None:
    with pytest.raises(ConfigurationError, match=r"needs the cluster secret"):
        data_plane_authenticator(SecurityContext(None, None, None, False))
