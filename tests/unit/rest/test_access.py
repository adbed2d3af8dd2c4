"""The callers that the REST server accepts."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.rest.access import MAX_TICKETS, SESSION_COOKIE, SESSION_LIFETIME_S, TICKET_LIFETIME_S, RestAccess
from flinkpy.rest.errors import RestError
from flinkpy.security import Audience, ClusterSecret, Role

NOW_S = 1_700_000_000
SECRET = ClusterSecret(bytes(range(32)))
HOST = {"host": "localhost:8081"}


def access(secret: ClusterSecret | None = SECRET, *hosts: str, scheme: str = "http") -> RestAccess:
    return RestAccess(secret, frozenset(hosts), scheme, ManualClock(NOW_S * 1000))


def bearer(token: str) -> dict[str, str]:
    return {**HOST, "authorization": f"Bearer {token}"}


def refusal(check: RestAccess, verb: str = "GET", headers: dict[str, str] = HOST, cookies: Any = None) -> HTTPStatus:
    with pytest.raises(RestError) as raised:
        check.role_of(verb, headers, cookies or {})
    return raised.value.status


def session_of(check: RestAccess, role: Role = Role.SUBMIT) -> dict[str, str]:
    return {SESSION_COOKIE: check.redeem(check.new_ticket(role))}


@pytest.mark.parametrize("role", list(Role))
def test_a_token_gives_its_role(role: Role) -> None:
    token = SECRET.token(role, Audience.DISPATCHER, NOW_S + 60)
    assert access().role_of("POST", bearer(token), {}) is role


@pytest.mark.parametrize(
    "token",
    [
        SECRET.token(Role.READ, Audience.DISPATCHER, NOW_S - 3_600),
        SECRET.token(Role.READ, Audience.TASK_EXECUTOR, NOW_S + 60),
        ClusterSecret(bytes(32)).token(Role.CLUSTER, Audience.DISPATCHER, NOW_S + 60),
        SECRET.token(Role.READ, Audience.DISPATCHER, NOW_S + 60).replace("read", "submit"),
        "",
        "x",
    ],
    ids=["expired", "other service", "other cluster", "forged role", "empty", "no token"],
)
def test_a_bad_token_is_refused(token: str) -> None:
    assert refusal(access(), headers=bearer(token)) == HTTPStatus.UNAUTHORIZED


def test_a_token_is_sent_as_bearer_only() -> None:
    token = SECRET.token(Role.READ, Audience.DISPATCHER, NOW_S + 60)
    assert refusal(access(), headers={**HOST, "authorization": f"Basic {token}"}) == HTTPStatus.UNAUTHORIZED


def test_a_request_without_token_and_session_is_refused() -> None:
    assert refusal(access()) == HTTPStatus.UNAUTHORIZED


def test_a_token_is_no_session() -> None:
    token = SECRET.token(Role.SUBMIT, Audience.DISPATCHER, NOW_S + 60)
    assert refusal(access(), cookies={SESSION_COOKIE: token}) == HTTPStatus.UNAUTHORIZED


def test_a_session_is_no_token() -> None:
    check = access()
    assert refusal(check, headers=bearer(session_of(check)[SESSION_COOKIE])) == HTTPStatus.UNAUTHORIZED


@pytest.mark.parametrize(
    "given, gets", [(Role.READ, Role.READ), (Role.SUBMIT, Role.SUBMIT), (Role.CLUSTER, Role.SUBMIT)]
)
def test_a_session_has_the_role_of_its_ticket_but_never_cluster(given: Role, gets: Role) -> None:
    check = access()
    assert check.role_of("GET", HOST, session_of(check, given)) is gets


def test_a_ticket_is_valid_once() -> None:
    check = access()
    ticket = check.new_ticket(Role.READ)
    check.redeem(ticket)
    with pytest.raises(RestError, match="used or has expired"):
        check.redeem(ticket)


def test_a_ticket_expires() -> None:
    clock = ManualClock(NOW_S * 1000)
    check = RestAccess(SECRET, frozenset(), "http", clock)
    ticket = check.new_ticket(Role.READ)
    clock.advance(TICKET_LIFETIME_S * 1000)
    with pytest.raises(RestError, match="used or has expired"):
        check.redeem(ticket)


def test_the_number_of_unused_tickets_is_bounded() -> None:
    check = access()
    for _ in range(MAX_TICKETS):
        check.new_ticket(Role.READ)
    with pytest.raises(RestError) as raised:
        check.new_ticket(Role.READ)
    assert raised.value.status == HTTPStatus.TOO_MANY_REQUESTS


def test_a_session_expires() -> None:
    clock = ManualClock(NOW_S * 1000)
    check = RestAccess(SECRET, frozenset(), "http", clock)
    session = session_of(check)
    clock.advance(SESSION_LIFETIME_S * 1000)
    assert refusal(check, cookies=session) == HTTPStatus.UNAUTHORIZED


def test_a_session_outlives_the_server_that_made_it() -> None:
    assert access().role_of("GET", HOST, session_of(access())) is Role.SUBMIT


def test_a_changed_session_is_refused() -> None:
    check = access()
    session = session_of(check, Role.READ)[SESSION_COOKIE].replace("read", "submit")
    assert refusal(check, cookies={SESSION_COOKIE: session}) == HTTPStatus.UNAUTHORIZED


@pytest.mark.parametrize("host", ["evil.example:8081", "evil.example", "localhost.evil.example", "", "a b", "[::1"])
def test_a_request_to_another_name_is_refused(host: str) -> None:
    """A page whose name was pointed at this host (DNS rebinding) sends its own name."""
    check = access()
    assert refusal(check, headers={"host": host}, cookies=session_of(check)) == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1:8081", "[::1]:8081", "127.8.8.8", "Flink.Example:80"])
def test_a_request_to_a_name_of_this_server_is_accepted(host: str) -> None:
    check = access(SECRET, "flink.example")
    assert check.role_of("GET", {"host": host}, session_of(check)) is Role.SUBMIT


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "https://localhost:8081"},
        {"origin": "http://localhost:9999"},
        {"origin": "null"},
        {"origin": "http://localhost:8081", "sec-fetch-site": "cross-site"},
        {"origin": "http://localhost:8081", "sec-fetch-site": "same-site"},
        {},
    ],
)
def test_a_session_changes_nothing_for_another_site(headers: dict[str, str]) -> None:
    check = access()
    assert refusal(check, "POST", {**HOST, **headers}, session_of(check)) == HTTPStatus.FORBIDDEN


def test_a_session_changes_something_for_its_own_page() -> None:
    check = access()
    own = {**HOST, "origin": "http://localhost:8081", "sec-fetch-site": "same-origin"}
    assert check.role_of("POST", own, session_of(check)) is Role.SUBMIT


def test_a_link_on_another_page_may_open_this_one() -> None:
    check = access()
    followed = {**HOST, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert check.role_of("GET", followed, session_of(check)) is Role.SUBMIT


def test_without_authentication_other_sites_are_still_refused() -> None:
    check = access(None)
    assert check.role_of("POST", HOST, {}) is Role.SUBMIT
    assert refusal(check, "POST", {**HOST, "origin": "http://evil.example"}) == HTTPStatus.FORBIDDEN
    assert refusal(check, "GET", {"host": "evil.example"}) == HTTPStatus.FORBIDDEN
