"""RestAccess: who may call the REST server.

A program sends a token of the cluster, as with RPC: `Authorization: Bearer TOKEN`. A browser gets in by a link that
`flinkpy dashboard` prints: its ticket is valid once and for a minute, and becomes a session cookie.

Browsers send cookies, and requests without any, also for pages of other sites. Therefore a request without a token must
be addressed to a name of this server (otherwise a foreign name could be pointed at this host: DNS rebinding) and must
not come from another site (CSRF).

Pure: the caller gives headers and time. Thread: any one.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address

from flinkpy.common.clock import Clock
from flinkpy.common.errors import AuthenticationError
from flinkpy.rest.errors import RestError
from flinkpy.security import Audience, ClusterSecret, Role
from flinkpy.security.access_token import check_token

SESSION_COOKIE = "flinkpy-session"
#: How long a browser stays logged in: a working day.
SESSION_LIFETIME_S = 12 * 3_600
#: How long the link of `flinkpy dashboard` is valid. A person opens it at once.
TICKET_LIFETIME_S = 60
#: Links that nobody has opened. Further ones are refused, so that a holder of a token cannot fill the memory.
MAX_TICKETS = 1_000

_AUDIENCES = frozenset((Audience.DISPATCHER,))
_SAFE_VERBS = frozenset(("GET", "HEAD", "OPTIONS"))
_SESSION = re.compile(r"(fs1\.(read|submit)\.([0-9]{1,12})\.[A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})")
_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class _Ticket:
    role: Role
    expires_s: float


class RestAccess:
    """Checks requests, and makes tickets and sessions.

    Args:
        secret: the cluster secret; None: callers need no token (`rest.authentication: none`).
        allowed_hosts: the names of this server, without ports.
        scheme: `http` or `https`.
    """

    def __init__(self, secret: ClusterSecret | None, allowed_hosts: frozenset[str], scheme: str, clock: Clock) -> None:
        self._secret = secret
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)
        self.scheme = scheme
        self._clock = clock
        self._tickets: dict[str, _Ticket] = {}

    @property
    def requires_token(self) -> bool:
        return self._secret is not None

    def role_of(self, verb: str, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Role:
        """Returns the role of the caller. Raises: RestError with status 401 or 403."""
        authorization = headers.get("authorization")
        if authorization is not None and self._secret is not None:
            # The page of another site cannot send a token, so where the request comes from does not matter.
            return self._role_of_token(authorization, self._secret)
        self.check_source(verb, headers)
        if self._secret is None:
            return Role.SUBMIT
        session = cookies.get(SESSION_COOKIE)
        role = None if session is None else self._role_of_session(session, self._secret)
        if role is None:
            raise RestError(
                HTTPStatus.UNAUTHORIZED,
                "This request carries no token and no valid session. Programs send `Authorization: Bearer TOKEN` with "
                "the output of `flinkpy token`; `flinkpy dashboard` opens the page in a browser.",
                {"WWW-Authenticate": 'Bearer realm="flinkpy"'},
            )
        if verb not in _SAFE_VERBS and "origin" not in headers:
            raise _forbidden("A request of a browser that changes something must carry the header `Origin`.")
        return role

    def _role_of_token(self, authorization: str, secret: ClusterSecret) -> Role:
        is_bearer = authorization[: len(_SCHEME)].lower() == _SCHEME
        token = authorization[len(_SCHEME) :].strip() if is_bearer else ""
        try:
            return check_token(secret, token, _AUDIENCES, self._now_s())
        except AuthenticationError as error:
            raise RestError(
                HTTPStatus.UNAUTHORIZED, str(error), {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            ) from None

    def check_source(self, verb: str, headers: Mapping[str, str]) -> None:
        """Raises: RestError with status 403 if the request is addressed to, or comes from, another site."""
        host = headers.get("host", "")
        name = host_name(host)
        if name is None or not (name in self._allowed_hosts or _is_loopback(name)):
            raise _forbidden(
                f"The name `{host[:200]}` in the header `Host` is not one of this server. `rest.allowed-hosts` lists "
                "further names."
            )
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{self.scheme}://{host.lower()}":
            raise _forbidden(f"Requests from the site `{origin[:200]}` are refused.")
        site = headers.get("sec-fetch-site", "none")
        is_navigation = verb in _SAFE_VERBS and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("none", "same-origin") and not is_navigation:
            raise _forbidden("Requests from pages of other sites are refused.")

    # --- sessions ---------------------------------------------------------------------------------------------------

    def new_ticket(self, role: Role) -> str:
        """Returns a ticket that becomes a session of `role`, at most SUBMIT. Raises: RestError with status 429."""
        now_s = self._now_s()
        self._tickets = {key: ticket for key, ticket in self._tickets.items() if ticket.expires_s > now_s}
        if len(self._tickets) >= MAX_TICKETS:
            raise RestError(HTTPStatus.TOO_MANY_REQUESTS, "Too many links to the dashboard have not been opened yet.")
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = _Ticket(min(role, Role.SUBMIT), now_s + TICKET_LIFETIME_S)
        return ticket

    def redeem(self, ticket: str) -> str:
        """Returns the session for a ticket, which is then used up. Raises: RestError with status 401."""
        found = self._tickets.pop(ticket, None)
        if found is None or found.expires_s <= self._now_s() or self._secret is None:
            raise RestError(
                HTTPStatus.UNAUTHORIZED,
                "This link has been used or has expired. `flinkpy dashboard` makes a new one.",
            )
        expires_s = int(self._now_s()) + SESSION_LIFETIME_S
        claims = f"fs1.{found.role.label}.{expires_s}.{secrets.token_urlsafe(16)}"
        return f"{claims}.{_proof(self._secret, claims)}"

    def _role_of_session(self, session: str, secret: ClusterSecret) -> Role | None:
        match = _SESSION.fullmatch(session)
        if match is None:
            return None
        claims, role, expires_s, proof = match.groups()
        is_ours = hmac.compare_digest(_proof(secret, claims), proof)
        return Role[role.upper()] if is_ours and int(expires_s) > self._now_s() else None

    def _now_s(self) -> float:
        return self._clock.now_ms() / 1000


def _proof(secret: ClusterSecret, claims: str) -> str:
    digest = hmac.digest(secret.derive_key("rest session"), claims.encode("ascii"), "sha256")
    return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def host_name(host: str) -> str | None:
    """Returns the name in a `Host` header, in lower case and without port and brackets; None if it is malformed."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?", host)
    return None if match is None else match.group(1).strip("[]").lower()


def _is_loopback(name: str) -> bool:
    """True if `name` is this host's own name for itself. Unlike other names it cannot be pointed elsewhere."""
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _forbidden(message: str) -> RestError:
    return RestError(HTTPStatus.FORBIDDEN, message)
