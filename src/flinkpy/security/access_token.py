"""Access tokens: texts that give their holder a role, for one kind of service and for a limited time.

    fp1.ROLE.AUDIENCE.EXPIRES.PROOF             the token of a call
    fp1.ROLE.AUDIENCE.EXPIRES.PROOF.AUTHORITY   the output of `flinkpy token`

EXPIRES is in seconds since 1970. PROOF is an HMAC-SHA-256 of the text before it. AUTHORITY is the certificate (DER,
base64url) with which the holder verifies a service of the cluster before it sends the token.
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
#: The largest difference between the clocks of two hosts at which tokens are accepted: the same as in Kerberos.
CLOCK_SKEW_S = 300
#: The lifetime of a token that a process makes for its own calls. It makes a new one after half of it. The other half
#: is the tolerated difference of two clocks: a clock that is days wrong must not stop a cluster, and these tokens are
#: only sent to services that have proved their identity.
OWN_TOKEN_LIFETIME_S = 7 * 86_400


class Audience(enum.StrEnum):
    """The kind of process that a token is for. Other processes refuse it."""

    DISPATCHER = "dispatcher"
    RESOURCE_MANAGER = "resourcemanager"
    JOB_MASTER = "jobmaster"
    TASK_EXECUTOR = "taskexecutor"

    @classmethod
    def of_service(cls, service: str) -> Audience:
        """Returns the kind of process that serves `service`, e.g. "BlobServer"."""
        return cls.DISPATCHER if service == "BlobServer" else cls(service.lower())


_TOKEN = re.compile(
    rf"({_FORMAT}\.({'|'.join(role.label for role in Role)})\.({'|'.join(Audience)})\.([0-9]{{1,12}}))"
    r"\.([A-Za-z0-9_-]{43})(?:\.([A-Za-z0-9_-]+))?"
)


@dataclass(frozen=True, slots=True)
class AccessToken:
    """The parts of a token. `check_token` verifies them."""

    claims: str
    role: Role
    audience: Audience
    expires_s: int
    proof: str
    #: PEM; None if the token has no authority.
    authority: bytes | None

    @classmethod
    def parse(cls, text: str) -> AccessToken | None:
        """Returns the parts of `text`; None if it is not a token."""
        match = _TOKEN.fullmatch(text)
        if match is None:
            return None
        claims, role, audience, expires, proof, authority = match.groups()
        return cls(claims, Role[role.upper()], Audience(audience), int(expires), proof, _pem(authority))

    @property
    def shown(self) -> str:
        """The token of a call, without the authority, which only the holder needs."""
        return f"{self.claims}.{self.proof}"


def claims(role: Role, audience: Audience, expires_s: int) -> str:
    """Returns the part of a token that its proof signs."""
    return f"{_FORMAT}.{role.label}.{audience}.{expires_s}"


def with_authority(token: str, certificate_pem: bytes) -> str:
    """Returns the token with the certificate by which its holder verifies the services of the cluster."""
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
    """A source of tokens for the calls of a process. Thread: any."""

    def token(self, audience: Audience) -> str:
        """Returns a token for calls to a process of this kind."""
        ...


class GivenToken:
    """The token that a client was given, which it uses for all calls."""

    def __init__(self, text: str) -> None:
        parsed = AccessToken.parse(text)
        self._shown = text if parsed is None else parsed.shown
        #: PEM; None if the token has no authority.
        self.authority = None if parsed is None else parsed.authority

    def token(self, audience: Audience) -> str:
        return self._shown

    def __repr__(self) -> str:
        return "GivenToken(****)"


class OwnTokens:
    """Tokens that a process makes from the cluster secret. They are renewed before they expire."""

    def __init__(self, secret: ClusterSecret, role: Role, clock: Clock | None = None) -> None:
        self._secret = secret
        self._role = role
        self._clock = clock or SystemClock()
        #: The token for each audience, and the times between which it is used.
        self._made: dict[Audience, tuple[str, int, int]] = {}

    def token(self, audience: Audience) -> str:
        now_s = self._clock.now_ms() // 1000
        made = self._made.get(audience)
        if made is None or not made[1] <= now_s < made[2]:  # also if the clock was set back
            token = self._secret.token(self._role, audience, now_s + OWN_TOKEN_LIFETIME_S)
            made = self._made[audience] = (token, now_s, now_s + OWN_TOKEN_LIFETIME_S // 2)
        return made[0]

    def __repr__(self) -> str:
        return f"OwnTokens({self._role.label})"


def check_token(secret: ClusterSecret, text: str, audiences: frozenset[Audience], now_s: float) -> Role:
    """Returns the role of the token `text` for calls to a process of the kinds `audiences`.

    Raises: AuthenticationError with the reason. Details are told only to callers with a token of this cluster.
    """
    token = AccessToken.parse(text)
    if token is None or not secret.has_made(token):
        raise AuthenticationError(
            "the token is not of this cluster: caller and cluster have different secrets, or the token was made before "
            "the secret was changed",
            details={"reason": "unknown"},
        )
    late_s = now_s - token.expires_s
    if late_s > CLOCK_SKEW_S:
        raise AuthenticationError(
            f"the token expired {late_s:.0f} s ago by the clock of the called host: make another one with "
            "`flinkpy token`. If it was made just now, the clocks of the two hosts differ",
            details={"reason": "expired"},
        )
    if token.audience not in audiences:
        raise AuthenticationError(
            f"the token is for a {token.audience}, but this process is a {' and a '.join(sorted(audiences))}",
            details={"reason": "audience"},
        )
    return token.role
