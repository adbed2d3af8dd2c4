"""SecurityContext: how a process authenticates itself and others."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from flinkpy.common.errors import SecretError
from flinkpy.configuration import security_options
from flinkpy.configuration.loading import run_directory
from flinkpy.configuration.options import AnyConfiguration, read_option
from flinkpy.security.access_token import Audience, GivenToken, OwnTokens, Tokens
from flinkpy.security.cluster_authority import derived_tls, of_authority
from flinkpy.security.cluster_secret import ClusterSecret
from flinkpy.security.role import Role
from flinkpy.security.tls_material import TlsMaterial

SECRET_FILE_VARIABLE = "FLINKPY_SECRET_FILE"
TOKEN_VARIABLE = "FLINKPY_TOKEN"


@dataclass(frozen=True, slots=True)
class SecurityContext:
    """The credentials of one process.

    Attributes:
        secret: the cluster secret; None for a client that has only a token, and without security.
        tokens: the tokens of this process's calls; None: calls carry no token.
        tls: the mutual TLS that is configured for all connections; None: not configured.
        is_insecure: True if addresses other than loopback may be bound without configured TLS. Calls are encrypted and
            tokens are checked nevertheless, if there is a secret.
        derived_tls: the TLS material derived from the secret, by which services prove their identity if TLS is not
            configured. None for a client that has neither secret nor token, and without security.
    """

    secret: ClusterSecret | None = field(repr=False)
    tokens: Tokens | None = field(repr=False)
    tls: TlsMaterial | None = field(default=None, repr=False)
    is_insecure: bool = False
    derived_tls: TlsMaterial | None = field(default=None, repr=False)

    @property
    def control_tls(self) -> TlsMaterial | None:
        """The TLS material of calls; None: calls are in plaintext and carry no token."""
        return self.tls or self.derived_tls

    def token_for(self, audience: Audience) -> str:
        """Returns the token for calls to a process of this kind; empty if there is none."""
        return "" if self.tokens is None else self.tokens.token(audience)

    @classmethod
    def of_service(cls, configuration: AnyConfiguration) -> SecurityContext:
        """Returns the context of a service. Creates the secret if there is none.

        Raises: SecretError, ConfigurationError. The process must end then.
        """
        file = secret_file(configuration)
        return cls.of_secret(
            ClusterSecret.load_or_create(file),
            tls=_tls(configuration, is_service=True),
            is_insecure=read_option(configuration, security_options.INSECURE),
            file=file,
        )

    @classmethod
    def of_secret(
        cls,
        secret: ClusterSecret,
        role: Role = Role.CLUSTER,
        *,
        tls: TlsMaterial | None = None,
        is_insecure: bool = False,
        file: Path | None = None,
    ) -> SecurityContext:
        """Returns the context of a process that has read the secret from `file` and calls others in `role`."""
        derived = derived_tls(secret, file) if tls is None else None
        return cls(secret, OwnTokens(secret, role), tls, is_insecure, derived)

    @classmethod
    def of_token(cls, token: str, *, tls: TlsMaterial | None = None, is_insecure: bool = False) -> SecurityContext:
        """Returns the context of a client that has only a token."""
        given = GivenToken(token)
        derived = of_authority(given.authority) if tls is None and given.authority is not None else None
        return cls(None, given, tls, is_insecure, derived)

    @classmethod
    def of_client(cls, configuration: AnyConfiguration) -> SecurityContext:
        """Returns the context of a program that uses a cluster.

        Its calls carry the configured token, or tokens made with the secret in its file. If there is neither, calls
        fail and name what is missing.

        Raises: SecretError if the file of the token or secret cannot be used; ConfigurationError.
        """
        tls = _tls(configuration, is_service=False)
        is_insecure = read_option(configuration, security_options.INSECURE)
        token = _given_token(configuration)
        if token is not None:
            return cls.of_token(token, tls=tls, is_insecure=is_insecure)
        path = secret_file(configuration)
        if not os.path.lexists(path):
            return cls(None, None, tls, is_insecure)
        secret = ClusterSecret.load(path)
        return cls.of_secret(secret, Role.SUBMIT, tls=tls, is_insecure=is_insecure, file=path)

    @classmethod
    def insecure(cls) -> SecurityContext:
        """Returns a context without authentication, for tests."""
        return cls(None, None, None, True)

    def with_role(self, role: Role) -> SecurityContext:
        """Returns this context with tokens of `role`. Raises: SecretError without the secret."""
        if self.secret is None:
            raise SecretError(f"a token of role {role.label} cannot be made without the cluster secret")
        return replace(self, tokens=OwnTokens(self.secret, role))


def _tls(configuration: AnyConfiguration, *, is_service: bool) -> TlsMaterial | None:
    material = TlsMaterial.of_configuration(configuration)
    if material is not None:
        material.check(is_service=is_service)
    return material


def is_insecure(configuration: AnyConfiguration) -> bool:
    """True if this process may use plaintext with other hosts."""
    return read_option(configuration, security_options.INSECURE) and not read_option(
        configuration, security_options.INTERNAL_ENABLED
    )


def secret_file(configuration: AnyConfiguration) -> Path:
    """Returns the file of `security.secret-file`, else of FLINKPY_SECRET_FILE, else the one in the run directory."""
    configured = read_option(configuration, security_options.SECRET_FILE) or os.environ.get(SECRET_FILE_VARIABLE)
    return Path(configured).expanduser().absolute() if configured else run_directory(configuration) / "secret"


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
                f"the token file {path} cannot be read ({reason}): write the output of `flinkpy token` to it",
                details={"path": str(path)},
            ) from None
    if read_option(configuration, security_options.SECRET_FILE):
        return None  # the configuration has precedence over the environment
    return os.environ.get(TOKEN_VARIABLE, "").strip() or None
