"""Access tokens: their content, the services that accept them, and their lifetime."""

from __future__ import annotations

import base64

import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import AuthenticationError
from flinkpy.security import Audience, ClusterSecret, Role
from flinkpy.security.access_token import (
    CLOCK_SKEW_S,
    OWN_TOKEN_LIFETIME_S,
    AccessToken,
    OwnTokens,
    check_token,
    with_authority,
)

SECRET = ClusterSecret(bytes(range(32)))
NOW_S = 1_800_000_000
DISPATCHER = frozenset({Audience.DISPATCHER})
#: Other programs hold tokens, so their format must never change.
KNOWN = "fp1.read.dispatcher.1800000060.pJasBD2qE2ARdrGZHIJQ1YNb9BtDdXh6UHS4mmPDbbk"


def reason(text: str, now_s: float = NOW_S) -> str:
    with pytest.raises(AuthenticationError) as refused:
        check_token(SECRET, text, DISPATCHER, now_s)
    assert not text or text not in str(refused.value)
    return refused.value.details["reason"]


def test_a_token_shows_its_role_to_the_service_it_is_for() -> None:
    assert SECRET.token(Role.READ, Audience.DISPATCHER, NOW_S + 60) == KNOWN
    for role in Role:
        token = SECRET.token(role, Audience.DISPATCHER, NOW_S + 60)
        assert check_token(SECRET, token, DISPATCHER, NOW_S) is role
        assert check_token(SECRET, token, frozenset(Audience), NOW_S) is role


def test_a_token_for_another_service_is_refused() -> None:
    assert reason(SECRET.token(Role.CLUSTER, Audience.RESOURCE_MANAGER, NOW_S + 60)) == "audience"


def test_a_token_ends_when_it_says_give_or_take_the_difference_of_two_clocks() -> None:
    end_s = NOW_S + 60
    token = SECRET.token(Role.CLUSTER, Audience.DISPATCHER, end_s)
    assert check_token(SECRET, token, DISPATCHER, end_s + CLOCK_SKEW_S) is Role.CLUSTER
    assert reason(token, end_s + CLOCK_SKEW_S + 1) == "expired"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "ü" * 64,
        "\udcff",
        "0" * 64,
        KNOWN + "=",
        KNOWN[:-1],
        KNOWN.upper(),
        KNOWN.replace("read", "cluster"),
        KNOWN.replace("1800000060", "1900000060"),
        KNOWN.replace("1800000060", "01800000060"),
        KNOWN.replace("1800000060", "١٨٠٠٠٠٠٠٦٠"),
        KNOWN.replace("dispatcher", "taskexecutor"),
        KNOWN.replace("fp1", "fp2"),
        KNOWN + "\n",
        ClusterSecret(bytes(32)).token(Role.CLUSTER, Audience.DISPATCHER, NOW_S + 60),
    ],
)
def test_anything_else_is_no_token_of_the_cluster(text: str) -> None:
    assert reason(text) == "unknown"


def test_a_token_that_is_handed_out_names_the_authority_which_is_not_shown() -> None:
    der = bytes(range(256)) * 2
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"
    token = AccessToken.parse(with_authority(KNOWN, pem))
    assert token is not None and token.shown == KNOWN
    assert token.authority is not None
    assert base64.b64decode(b"".join(token.authority.splitlines()[1:-1])) == der


def test_hosts_whose_clocks_differ_by_two_days_take_each_other_s_tokens() -> None:
    clock = ManualClock((NOW_S - 86_400) * 1000)
    tokens = OwnTokens(SECRET, Role.CLUSTER, clock)
    tokens.token(Audience.DISPATCHER)
    clock.advance((OWN_TOKEN_LIFETIME_S // 2 - 1) * 1000)  # the oldest that is shown
    ahead_s = clock.now_ms() / 1000 + 2 * 86_400
    assert check_token(SECRET, tokens.token(Audience.DISPATCHER), DISPATCHER, ahead_s) is Role.CLUSTER


def test_a_process_makes_its_own_tokens_anew_long_before_they_end() -> None:
    clock = ManualClock(NOW_S * 1000)
    tokens = OwnTokens(SECRET, Role.SUBMIT, clock)
    first = tokens.token(Audience.DISPATCHER)
    assert tokens.token(Audience.DISPATCHER) == first != tokens.token(Audience.JOB_MASTER)
    clock.advance((OWN_TOKEN_LIFETIME_S // 2) * 1000)
    second = tokens.token(Audience.DISPATCHER)
    assert second != first
    assert check_token(SECRET, second, DISPATCHER, clock.now_ms() / 1000) is Role.SUBMIT
    assert "fp1" not in repr(tokens)
