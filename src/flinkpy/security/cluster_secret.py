"""ClusterSecret: the 256-bit secret that all services of a cluster share, and keys derived from it.

A user who can read its file can do everything in the cluster. A file that others could have read or written is refused,
and the process ends: a cluster must not run with less protection than configured.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import NoReturn

from flinkpy.common.durable_file import sync_directory, unfinished_path
from flinkpy.common.errors import SecretError
from flinkpy.security.access_token import AccessToken, Audience, claims
from flinkpy.security.role import Role

_SECRET_BYTES = 32
#: Enough for the hexadecimal digits and white space. A larger file is not a secret.
_MAX_FILE_BYTES = 4096


class ClusterSecret:
    """The secret of a cluster. It cannot be printed or pickled."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _SECRET_BYTES:
            raise SecretError(f"a cluster secret has {_SECRET_BYTES} bytes, not {len(secret)}")
        self._secret = secret

    @classmethod
    def generate(cls) -> ClusterSecret:
        return cls(secrets.token_bytes(_SECRET_BYTES))

    @classmethod
    def load_or_create(cls, path: str | os.PathLike[str]) -> ClusterSecret:
        """Returns the secret in the file `path`. Creates the file with a new secret if it does not exist.

        Several processes may do this at once; all get the same secret. Raises: SecretError.
        """
        file = Path(path)
        if not _exists(file):
            _create(file)
        return cls.load(file)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ClusterSecret:
        """Returns the secret in the file `path`. Raises: SecretError naming the file and a remedy."""
        file = Path(path)
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            _refuse(file, f"cannot be read ({error.strerror})", "make it readable for the user that runs the services")
        try:
            _check_protection(file, os.fstat(descriptor))
            text = os.read(descriptor, _MAX_FILE_BYTES)
        finally:
            os.close(descriptor)
        try:
            secret = bytes.fromhex(text.decode("ascii").strip())
        except ValueError:
            secret = b""
        if len(secret) != _SECRET_BYTES:
            _refuse(
                file,
                f"does not hold a secret of {2 * _SECRET_BYTES} hexadecimal digits",
                "copy it again from another host of the cluster, or remove it on all hosts to get a new one",
            )
        return cls(secret)

    def token(self, role: Role, audience: Audience, expires_s: int) -> str:
        """Returns a token of `role` for processes of the kind `audience`. `expires_s` is in seconds since 1970."""
        said = claims(role, audience, expires_s)
        return f"{said}.{self._proof(said)}"

    def has_made(self, token: AccessToken) -> bool:
        """True if the token was made with this secret. Takes the same time for every token."""
        return hmac.compare_digest(self._proof(token.claims), token.proof)

    def _proof(self, said: str) -> str:
        digest = self._digest(b"flinkpy token " + said.encode("ascii"))
        return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")

    def derive(self, purpose: str) -> str:
        """Returns a secret for another purpose, e.g. "zookeeper". It reveals nothing about this secret."""
        return self.derive_key(purpose).hex()

    def derive_key(self, purpose: str) -> bytes:
        """Returns the same as `derive`, as 32 bytes."""
        return self._digest(b"flinkpy key " + purpose.encode("utf-8"))

    def _digest(self, message: bytes) -> bytes:
        return hmac.digest(self._secret, message, "sha256")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSecret) and hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.derive("hash"))

    def __repr__(self) -> str:
        return "ClusterSecret(****)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ClusterSecret cannot be pickled: it stays in the processes that have read its file")


def _exists(file: Path) -> bool:
    try:
        file.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        _refuse(file, f"cannot be read ({error.strerror})", "make it readable for the user that runs the services")
    return True


def _create(file: Path) -> None:
    """Creates the file atomically, and does not replace an existing one."""
    unfinished = unfinished_path(file)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as stream:
                stream.write(secrets.token_bytes(_SECRET_BYTES).hex().encode("ascii") + b"\n")
                stream.flush()
                os.fsync(descriptor)
            # If another process was faster, its secret is used.
            with contextlib.suppress(FileExistsError):
                os.link(unfinished, file)
        finally:
            unfinished.unlink(missing_ok=True)
        sync_directory(file.parent)
    except OSError as error:
        _refuse(
            file,
            f"does not exist and cannot be created ({error.strerror})",
            "make its directory writable, or name another file with `security.secret-file` or FLINKPY_SECRET_FILE",
        )


def _check_protection(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        _refuse(file, "is not a file", "name a file with `security.secret-file` or FLINKPY_SECRET_FILE")
    # Root can read and write it anyway, and owns the files that a container engine mounts.
    if status.st_uid not in (os.geteuid(), 0):
        _refuse(file, f"belongs to another user (uid {status.st_uid})", f"run `chown {os.geteuid()} {file}`")
    if status.st_mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        mode = stat.S_IMODE(status.st_mode)
        _refuse(
            file,
            f"can be read or written by others (mode {mode:04o})",
            f"run `chmod 600 {file}`; if others may have read it, remove it, and the next start makes a new one",
        )


def _refuse(file: Path, problem: str, remedy: str) -> NoReturn:
    raise SecretError(f"the cluster secret {file} {problem}: {remedy}", details={"path": str(file)}) from None
