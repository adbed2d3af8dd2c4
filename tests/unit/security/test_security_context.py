"""The source of a process's token, and the addresses that may be bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkpy.common.errors import ConfigurationError, SecretError
from flinkpy.security import Audience, ClusterSecret, Role, SecurityContext, check_bind
from flinkpy.security.access_token import AccessToken
from flinkpy.security.security_context import is_insecure, secret_file


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FLINKPY_SECRET_FILE", raising=False)
    monkeypatch.delenv("FLINKPY_TOKEN", raising=False)
    monkeypatch.delenv("FLINKPY_RUN_DIR", raising=False)
    return tmp_path


def shown(context: SecurityContext) -> str:
    return context.token_for(Audience.DISPATCHER)


def role_shown(context: SecurityContext) -> Role:
    token = AccessToken.parse(shown(context))
    assert token is not None and context.secret is not None and context.secret.has_made(token)
    return token.role


def test_a_service_makes_the_secret_and_shows_the_token_of_the_cluster(home: Path) -> None:
    context = SecurityContext.of_service({})
    secret = ClusterSecret.load(home / ".flinkpy" / "cluster" / "secret")
    assert context.secret == secret and role_shown(context) is Role.CLUSTER
    assert context.tls is None and not context.is_insecure


def test_the_file_of_the_secret_is_configured_or_in_the_environment_or_at_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert secret_file({}) == home / ".flinkpy" / "cluster" / "secret"
    assert secret_file({"env.pid.dir": "~/other"}) == home / "other" / "secret"  # each cluster has its own
    monkeypatch.setenv("FLINKPY_RUN_DIR", "/run/flinkpy")
    assert secret_file({}) == Path("/run/flinkpy/secret")
    monkeypatch.setenv("FLINKPY_SECRET_FILE", "~/of/environment")
    assert secret_file({}) == home / "of" / "environment"
    assert secret_file({"security.secret-file": "~/configured"}) == home / "configured"


def test_a_client_of_the_same_user_needs_nothing_and_shows_the_submit_token_only(home: Path) -> None:
    service = SecurityContext.of_service({})
    client = SecurityContext.of_client({})
    assert service.secret is not None
    assert client.secret == service.secret and role_shown(client) is Role.SUBMIT


def test_a_client_shows_the_token_it_was_given_from_the_nearest_place(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SecurityContext.of_service({})
    monkeypatch.setenv("FLINKPY_TOKEN", "of environment\n")
    assert shown(SecurityContext.of_client({})) == "of environment"
    (home / "token").write_text("of file\n")
    with_file = {"security.token-file": "~/token"}
    assert shown(SecurityContext.of_client(with_file)) == "of file"
    assert shown(SecurityContext.of_client({**with_file, "security.token": "configured"})) == "configured"
    assert SecurityContext.of_client(with_file).secret is None
    named = SecurityContext.of_client({"security.secret-file": "~/.flinkpy/cluster/secret"})
    assert named.secret is not None and role_shown(named) is Role.SUBMIT


def test_a_client_makes_no_secret_and_shows_nothing_where_there_is_none(home: Path) -> None:
    assert shown(SecurityContext.of_client({})) == ""
    assert list(home.iterdir()) == []


def test_a_file_that_is_named_and_cannot_be_used_is_an_error_and_no_fallback(home: Path) -> None:
    with pytest.raises(SecretError, match=r"token file .*/no.*flinkpy token"):
        SecurityContext.of_client({"security.token-file": "~/no"})
    SecurityContext.of_service({})
    (home / ".flinkpy" / "cluster" / "secret").chmod(0o644)
    for make in (SecurityContext.of_client, SecurityContext.of_service):
        with pytest.raises(SecretError, match="chmod 600"):
            make({})


def test_a_context_shows_neither_token_nor_key(home: Path) -> None:
    context = SecurityContext.of_service({})
    assert shown(context) not in repr(context)


def test_a_token_of_another_role_takes_the_secret(home: Path) -> None:
    with pytest.raises(SecretError, match="role cluster"):
        SecurityContext.of_client({"security.token": "x"}).with_role(Role.CLUSTER)


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1", "[::1]", "127.8.9.1"])
def test_the_loopback_may_be_bound_without_anything(address: str) -> None:
    check_bind(address, SecurityContext.of_secret(ClusterSecret.generate()))


@pytest.mark.parametrize(
    "address", ["0.0.0.0", "::", "[::]", "10.0.0.1", "some-host", "localhost.example.com", "", "0"]
)
def test_other_addresses_take_tls_or_the_word_insecure(address: str) -> None:
    secret = ClusterSecret.generate()
    with pytest.raises(ConfigurationError) as raised:
        check_bind(address, SecurityContext.of_secret(secret))
    assert all(remedy in str(raised.value) for remedy in ("flinkpy certs", "127.0.0.1", "--insecure"))
    check_bind(address, SecurityContext.of_secret(secret, is_insecure=True))


def test_an_insecure_service_has_its_secret_all_the_same(home: Path) -> None:
    context = SecurityContext.of_service({"security.insecure": "true"})
    assert context.is_insecure and context.secret is not None and shown(context)
    assert is_insecure({"security.insecure": "true"})
    assert not is_insecure({"security.insecure": "true", "security.ssl.internal.enabled": "true"})
