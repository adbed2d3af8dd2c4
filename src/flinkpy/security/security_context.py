"""SecurityContext: what one process needs to be known to others and to know them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from flinkpy.common.errors import SecretError
from flinkpy.configuration import security_options
from flinkpy.configuration.options import AnyConfiguration, read_option
from flinkpy.configuration.run_directory import run_directory
from flinkpy.security.access_token import Audience, GivenToken, OwnTokens, Tokens
from flinkpy.security.cluster_authority import derived_tls, of_authority
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
        tokens: what this process shows on its calls; None for nothing.
        tls: mutual TLS that a user has set up, for all connections; None where there is none.
        is_insecure: whether addresses beyond the loopback may be bound without such TLS. Calls are encrypted, and
            tokens checked, all the same, unless there is no secret either.
        derived_tls: how services prove that they are of the cluster where no user has set up TLS; it follows from the
            secret. None: a client that has neither secret nor token, and where nothing is checked.
    """

    secret: ClusterSecret | None = field(repr=False)
    tokens: Tokens | None = field(repr=False)
    tls: TlsMaterial | None = field(default=None, repr=False)
    is_insecure: bool = False
    derived_tls: TlsMaterial | None = field(default=None, repr=False)

    @property
    def control_tls(self) -> TlsMaterial | None:
        """The TLS material of calls. None means plaintext, and then no token is shown."""
        return self.tls or self.derived_tls

    def token_for(self, audience: Audience) -> str:
        """Returns the token to show to a process of that kind, "" if there is none."""
        return "" if self.tokens is None else self.tokens.token(audience)

    @classmethod
    def of_service(cls, configuration: AnyConfiguration) -> SecurityContext:
        """Of a process of the cluster; the secret is made where there is none yet.

        Raises: SecretError, ConfigurationError. The process cannot go on without.
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
        """Returns the context of a process that knows the secret, from `file`, and calls others in `role`."""
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

        It shows the token that it was given, else tokens made of the secret's file.

        Where there is neither, nothing can be called, and the first call says what is missing. Raises: SecretError
        where a file is named or there and cannot be used, ConfigurationError.
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
        """Nothing is checked and nothing shown: for tests of other things."""
        return cls(None, None, None, True)

    def with_role(self, role: Role) -> SecurityContext:
        """The same, showing tokens of `role`, which takes the secret."""
        if self.secret is None:
            raise SecretError(f"a token of role {role.label} cannot be made without the cluster secret")
        return replace(self, tokens=OwnTokens(self.secret, role))


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
    """`security.secret-file`, else FLINKPY_SECRET_FILE, else that of the run directory."""
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
                f"the token file {path} cannot be read ({reason}): write there what `flinkpy token` prints",
                details={"path": str(path)},
            ) from None
    if read_option(configuration, security_options.SECRET_FILE):
        return None  # what is configured counts before the environment
    return os.environ.get(TOKEN_VARIABLE, "").strip() or None
