"""ClusterCredentials: the secret and the certificates of a cluster in Kubernetes, made when it is deployed.

The services get the cluster secret, from which all rights follow. Clients get a token with which they may submit jobs,
and a certificate of their own. The key of the authority is kept nowhere: a cluster whose certificates expire is
deployed again.

Source: none, Flink's clusters have the certificates that their users make.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import timedelta

#: The names of the files in both secrets.
SECRET_FILE, SERVICE_FILE = "secret", "service.pem"
TOKEN_FILE, CLIENT_FILE = "token", "client.pem"
AUTHORITY_FILE = "ca.pem"
_SECRET_BYTES = 32
#: The validity of certificates and of the token of clients.
_LIFETIME = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
    """Texts of files by their names, for the services and for the clients."""

    of_services: dict[str, str] = field(repr=False)
    of_clients: dict[str, str] = field(repr=False)


def make_credentials(now_ms: int) -> ClusterCredentials:
    """Makes a cluster secret, an authority, certificates and a token, which are valid for a year."""
    from flinkpy.security import PEER_NAME, Audience, ClusterSecret, Role
    from flinkpy.security.certificates import CLIENT_NAME, make_authority, make_certificate

    authority = make_authority(now_ms)
    service = make_certificate(authority, PEER_NAME, now_ms, _LIFETIME)
    client = make_certificate(authority, CLIENT_NAME, now_ms, _LIFETIME)
    secret = secrets.token_bytes(_SECRET_BYTES)
    expires_s = now_ms // 1000 + int(_LIFETIME.total_seconds())
    token = ClusterSecret(secret).token(Role.SUBMIT, Audience.DISPATCHER, expires_s)
    trusted = authority.certificate_pem.decode()
    return ClusterCredentials(
        {
            SECRET_FILE: secret.hex(),
            SERVICE_FILE: (service.key_pem + service.certificate_pem).decode(),
            AUTHORITY_FILE: trusted,
        },
        {
            TOKEN_FILE: token,
            CLIENT_FILE: (client.key_pem + client.certificate_pem).decode(),
            AUTHORITY_FILE: trusted,
        },
    )
