"""Access tokens: text that shows which role its holder has, for which kind of service, and until when.

    fp1.ROLE.AUDIENCE.EXPIRES.PROOF             what is shown on a call
    fp1.ROLE.AUDIENCE.EXPIRES.PROOF.AUTHORITY   what `flinkpy token` prints

EXPIRES is in seconds since 1970, and PROOF is an HMAC-SHA-256 of what comes before it. AUTHORITY is the certificate
(DER, base64url) by which the holder recognises the services of the cluster, before it shows them the token.
"""

from __future__ import annotations

import base64
import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import AuthenticationError
from flinkpy.security.role import Role

if TYPE_CHECKING:
    from flinkpy.security.cluster_secret import ClusterSecret

_FORMAT = "fp1"
#: How far the clocks of two hosts may differ before tokens are refused: Kerberos' bound, which hosts with NTP keep.
CLOCK_SKEW_S = 300
#: How long a token is good that a process makes for its own calls. It makes a new one when half of this is over. The
#: rest is what the wall clocks of two hosts may differ by before they refuse each other: a clock that is days wrong
#: must not end a cluster, and these tokens are shown to nobody but services that have proved themselves.
OWN_TOKEN_LIFETIME_S = 7 * 86_400


class Audience(enum.StrEnum):
    """The kinds of process a token can be for. A token for one is refused by the others."""

    DISPATCHER = "dispatcher"
    RESOURCE_MANAGER = "resourcemanager"
    JOB_MASTER = "jobmaster"
    TASK_EXECUTOR = "taskexecutor"

    @classmethod
    def of_service(cls, service: str) -> Audience:
        """The kind of process that serves `service`, e.g. "BlobServer"."""
        return cls.DISPATCHER if service == "BlobServer" else cls(service.lower())


_TOKEN = re.compile(
    rf"({_FORMAT}\.({'|'.join(role.label for role in Role)})\.({'|'.join(Audience)})\.([0-9]{{1,12}}))"
    r"\.([A-Za-z0-9_-]{43})(?:\.([A-Za-z0-9_-]+))?"
)


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token taken apart. Nothing in it is proved until `ClusterSecret.role_of` has looked at it."""

    claims: str
    role: Role
    audience: Audience
    expires_s: int
    proof: str
    #: PEM; None where the token does not say.
    authority: bytes | None

    @classmethod
    def parse(cls, text: str) -> AccessToken | None:
        """None where `text` is no token of this format."""
        match = _TOKEN.fullmatch(text)
        if match is None:
            return None
        claims, role, audience, expires, proof, authority = match.groups()
        return cls(claims, Role[role.upper()], Audience(audience), int(expires), proof, _pem(authority))

    @property
    def shown(self) -> str:
        """Returns the part that a call shows: without the authority, which only the holder needs."""
        return f"{self.claims}.{self.proof}"


def claims(role: Role, audience: Audience, expires_s: int) -> str:
    """The part of a token that its proof is about."""
    return f"{_FORMAT}.{role.label}.{audience}.{expires_s}"


def with_authority(token: str, certificate_pem: bytes) -> str:
    """`token` with all that its holder needs to recognise the services of the cluster."""
    der = base64.b64decode(b"".join(certificate_pem.splitlines()[1:-1]))
    return f"{token}.{base64.urlsafe_b64encode(der).decode().rstrip('=')}"


def _pem(encoded: str | None) -> bytes | None:
    if encoded is None:
        return None
    try:
        der = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except ValueError:
        return None
    return b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"


class Tokens(Protocol):
    """Where a process has the tokens from that it shows. Thread: any."""

    def token(self, audience: Audience) -> str:
        """A token to show to a process of that kind."""
        ...


class GivenToken:
    """The one token that a client was given, whomever it calls."""

    def __init__(self, text: str) -> None:
        parsed = AccessToken.parse(text)
        self._shown = text if parsed is None else parsed.shown
        #: PEM; None where the token does not say.
        self.authority = None if parsed is None else parsed.authority

    def token(self, audience: Audience) -> str:
        return self._shown

    def __repr__(self) -> str:
        return "GivenToken(****)"


class OwnTokens:
    """The tokens that a process makes for itself because it knows the secret. They are made anew in time."""

    def __init__(self, secret: ClusterSecret, role: Role, clock: Clock | None = None) -> None:
        self._secret = secret
        self._role = role
        self._clock = clock or SystemClock()
        #: For each audience the token, and from when to when it is shown.
        self._made: dict[Audience, tuple[str, int, int]] = {}

    def token(self, audience: Audience) -> str:
        now_s = self._clock.now_ms() // 1000
        made = self._made.get(audience)
        if made is None or not made[1] <= now_s < made[2]:  # also where the clock was set back
            token = self._secret.token(self._role, audience, now_s + OWN_TOKEN_LIFETIME_S)
            made = self._made[audience] = (token, now_s, now_s + OWN_TOKEN_LIFETIME_S // 2)
        return made[0]

    def __repr__(self) -> str:
        return f"OwnTokens({self._role.label})"


def check_token(secret: ClusterSecret, text: str, audiences: frozenset[Audience], now_s: float) -> Role:
    """The role that `text` shows to a process of the kinds `audiences`.

    Raises: AuthenticationError saying what is wrong with it. What a token says is told only to those who hold one of
        this cluster.
    """
    token = AccessToken.parse(text)
    if token is None or not secret.has_made(token):
        raise AuthenticationError(
            "the token shown is none of this cluster: caller and cluster have different secrets, or the token was made "
            "before the secret was changed",
            details={"reason": "unknown"},
        )
    late_s = now_s - token.expires_s
    if late_s > CLOCK_SKEW_S:
        raise AuthenticationError(
            f"the token shown expired {late_s:.0f} s ago by the clock of the called host: make another one with "
            "`flinkpy token`. If it was made just now, the clocks of the two hosts differ",
            details={"reason": "expired"},
        )
    if token.audience not in audiences:
        raise AuthenticationError(
            f"the token shown is for a {token.audience}, and this process is a {' and a '.join(sorted(audiences))}",
            details={"reason": "audience"},
        )
    return token.role
