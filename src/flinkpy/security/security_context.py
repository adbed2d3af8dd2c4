"""SecurityContext: what one process needs to be known to others and to know them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from flinkpy.common.errors import SecretError
from flinkpy.configuration import security_options
from flinkpy.configuration.options import AnyConfiguration, read_option
from flinkpy.security.cluster_secret import ClusterSecret
from flinkpy.security.role import Role
from flinkpy.security.tls_material import TlsMaterial

SECRET_FILE_VARIABLE = "FLINKPY_SECRET_FILE"
TOKEN_VARIABLE = "FLINKPY_TOKEN"


@dataclass(frozen=True, slots=True)
class SecurityContext:
    """How this process shows who it is, and checks who others are.

    Attributes:
        secret: the cluster's; None for a client that was given a token only, and where nothing is checked.
        token: what this process shows on its calls: a service the token of the cluster, a client what it was given.
        tls: None means plaintext.
        is_insecure: whether addresses beyond the loopback may be used without TLS. Tokens are checked all the same,
            unless there is no secret either.
    """

    secret: ClusterSecret | None = field(repr=False)
    token: str = field(repr=False)
    tls: TlsMaterial | None = field(default=None, repr=False)
    is_insecure: bool = False

    @classmethod
    def of_service(cls, configuration: AnyConfiguration) -> SecurityContext:
        """Of a process of the cluster; the secret is made where there is none yet.

        Raises: SecretError, ConfigurationError. The process cannot go on without.
        """
        secret = ClusterSecret.load_or_create(secret_file(configuration))
        return cls.of_secret(
            secret,
            tls=_tls(configuration, is_service=True),
            is_insecure=read_option(configuration, security_options.INSECURE),
        )

    @classmethod
    def of_secret(
        cls,
        secret: ClusterSecret,
        role: Role = Role.CLUSTER,
        *,
        tls: TlsMaterial | None = None,
        is_insecure: bool = False,
    ) -> SecurityContext:
        """That of a process that knows the secret and shows on its calls that it has `role`."""
        return cls(secret, secret.token(role), tls, is_insecure)

    @classmethod
    def of_client(cls, configuration: AnyConfiguration) -> SecurityContext:
        """Of a program that uses a cluster: the token it was given, else the submit token of the secret's file.

        Where there is neither, the calls show no token, and the cluster says what is missing. Raises: SecretError
        where a file is named or there and cannot be used, ConfigurationError.
        """
        tls = _tls(configuration, is_service=False)
        is_insecure = read_option(configuration, security_options.INSECURE)
        token = _given_token(configuration)
        if token is not None:
            return cls(None, token, tls, is_insecure)
        path = secret_file(configuration)
        if not os.path.lexists(path):
            return cls(None, "", tls, is_insecure)
        return cls.of_secret(ClusterSecret.load(path), Role.SUBMIT, tls=tls, is_insecure=is_insecure)

    @classmethod
    def insecure(cls) -> SecurityContext:
        """Nothing is checked and nothing shown: for tests of other things."""
        return cls(None, "", None, True)

    def with_role(self, role: Role) -> SecurityContext:
        """The same, showing the token of `role`, which takes the secret."""
        if self.secret is None:
            raise SecretError(f"a token of role {role.label} cannot be made without the cluster secret")
        return SecurityContext(self.secret, self.secret.token(role), self.tls, self.is_insecure)


def _tls(configuration: AnyConfiguration, *, is_service: bool) -> TlsMaterial | None:
    material = TlsMaterial.of_configuration(configuration)
    if material is not None:
        material.check(is_service=is_service)
    return material


def is_insecure(configuration: AnyConfiguration) -> bool:
    """Whether plaintext beyond this host is accepted, and would be what is spoken."""
    return read_option(configuration, security_options.INSECURE) and not read_option(
        configuration, security_options.INTERNAL_ENABLED
    )


def secret_file(configuration: AnyConfiguration) -> Path:
    """`security.secret-file`, else FLINKPY_SECRET_FILE, else `~/.flinkpy/secret`."""
    configured = read_option(configuration, security_options.SECRET_FILE) or os.environ.get(SECRET_FILE_VARIABLE)
    return Path(configured).expanduser().absolute() if configured else Path.home() / ".flinkpy" / "secret"


def _given_token(configuration: AnyConfiguration) -> str | None:
    token = read_option(configuration, security_options.TOKEN)
    if token:
        return token.strip()
    file = read_option(configuration, security_options.TOKEN_FILE)
    if file:
        path = Path(file).expanduser()
        try:
            return path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise SecretError(
                f"the token file {path} cannot be read ({reason}): write there what `flinkpy token` prints",
                details={"path": str(path)},
            ) from None
    if read_option(configuration, security_options.SECRET_FILE):
        return None  # what is configured counts before the environment
    return os.environ.get(TOKEN_VARIABLE, "").strip() or None
