"""Authentication and authorization: the cluster secret, tokens, roles and TLS material.

Source: org.apache.flink.runtime.net.SSLUtils, org.apache.flink.configuration.SecurityOptions.
Differs: Flink authenticates callers only with TLS. Here every call carries a token (docs/decisions/0020).
"""

from flinkpy.common.errors import AuthenticationError, AuthorizationError, SecretError, TlsError
from flinkpy.security.access_token import Audience
from flinkpy.security.bind_guard import check_bind
from flinkpy.security.cluster_secret import ClusterSecret
from flinkpy.security.role import Role
from flinkpy.security.security_context import SecurityContext
from flinkpy.security.tls_material import PEER_NAME, ZOOKEEPER_NAME, TlsMaterial

__all__ = [
    "PEER_NAME",
    "ZOOKEEPER_NAME",
    "Audience",
    "AuthenticationError",
    "AuthorizationError",
    "ClusterSecret",
    "Role",
    "SecretError",
    "SecurityContext",
    "TlsError",
    "TlsMaterial",
    "check_bind",
]
