"""`flinkpy certs`: an authority and certificates for mutual TLS."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flinkpy.common.errors import UserError

if TYPE_CHECKING:
    from flinkpy.security.certificates import Identity

AUTHORITY_KEY, AUTHORITY = "ca.key", "ca.pem"
#: What certificates are made for, and the file they go to.
SERVICE, CLIENT, ZOOKEEPER = "service", "client", "zookeeper"


@click.command()
@click.argument("directory", type=click.Path(file_okay=False))
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="How long they are good.")
@click.option("--renew", is_flag=True, help="Make the certificates anew, signed by the authority that is there.")
@click.option(
    "--store-type",
    type=click.Choice(["PEM", "PKCS12"], case_sensitive=False),
    default="PEM",
    show_default=True,
    help="Format of the stores; PKCS12 needs --password-file.",
)
@click.option(
    "--password-file", type=click.Path(exists=True, dir_okay=False), help="File whose first line is the password."
)
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of an error.")
def certs(directory: str, days: int, renew: bool, store_type: str, password_file: str | None, verbose: bool) -> None:
    """Make an authority (ca.pem, ca.key) and certificates for services, clients and ZooKeeper in DIRECTORY.

    Bring `service` and `ca` to the hosts of the services, `client` and `ca` to those of clients, `zookeeper` and `ca`
    to ZooKeeper's if it is to speak TLS; ca.key stays here, and is needed for --renew only. Certificates do not name
    hosts.
    """
    from flinkpy.common.clock import SystemClock
    from flinkpy.security import PEER_NAME, ZOOKEEPER_NAME
    from flinkpy.security.certificates import CLIENT_NAME, make_authority, make_certificate

    place = Path(directory)
    password = _password(store_type.upper(), password_file)
    suffix = "pem" if password is None else "p12"
    now_ms = SystemClock().now_ms()
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        if renew:
            authority = _authority_of(place)
        else:
            _refuse_to_overwrite(place)
            authority = make_authority(now_ms)
            _write(place / AUTHORITY_KEY, authority.key_pem, 0o600)
            _write(place / AUTHORITY, authority.certificate_pem, 0o644)
        trust_store = place / (AUTHORITY if password is None else "ca.p12")
        if password is not None:
            _write_trust_store(trust_store, authority, password)
        for label, name in ((SERVICE, PEER_NAME), (CLIENT, CLIENT_NAME), (ZOOKEEPER, ZOOKEEPER_NAME)):
            identity = make_certificate(authority, name, now_ms, timedelta(days=days))
            content = (
                identity.key_pem + identity.certificate_pem
                if password is None
                else identity.as_pkcs12(name, authority, password)
            )
            _write(place / f"{label}.{suffix}", content, 0o600)
            click.echo(f"{place / f'{label}.{suffix}'}: SHA-256 fingerprint {identity.fingerprint}")
    except OSError as error:
        raise UserError(f"the certificates cannot be written to {place}: {error.strerror}") from error
    click.echo("In the configuration of services (of clients with `client` in place of `service`):")
    click.echo("security.ssl.internal.enabled: true")
    click.echo(f"security.ssl.internal.keystore: {(place / f'{SERVICE}.{suffix}').absolute()}")
    click.echo(f"security.ssl.internal.truststore: {trust_store.absolute()}")


def _password(store_type: str, file: str | None) -> bytes | None:
    if store_type == "PEM":
        return None
    lines = Path(file).read_bytes().splitlines() if file is not None else []
    if not lines or not lines[0]:
        raise click.UsageError("PKCS12 stores need a password: --password-file FILE")
    return lines[0]


def _write_trust_store(path: Path, authority: Identity, password: bytes) -> None:
    from flinkpy.security.certificates import trust_store_pkcs12

    _write(path, trust_store_pkcs12(authority, password), 0o644)


def _refuse_to_overwrite(place: Path) -> None:
    names = (
        AUTHORITY_KEY,
        AUTHORITY,
        "ca.p12",
        *(f"{label}.{end}" for label in (SERVICE, CLIENT, ZOOKEEPER) for end in ("pem", "p12")),
    )
    existing = [name for name in names if (place / name).exists()]
    if existing:
        raise UserError(
            f"{place} has {', '.join(existing)} already: nothing was changed. `--renew` makes new certificates of the "
            "same authority; another authority belongs in another directory"
        )


def _authority_of(place: Path) -> Identity:
    from flinkpy.security.certificates import Identity

    try:
        return Identity.of_pem((place / AUTHORITY_KEY).read_bytes(), (place / AUTHORITY).read_bytes())
    except FileNotFoundError as error:
        raise UserError(f"there is no authority to sign with: {error.filename} is missing") from None
    except (ValueError, TypeError) as error:
        raise UserError(f"the authority in {place} cannot be used: {error}") from None


def _write(path: Path, content: bytes, mode: int) -> None:
    """Whole or not at all, and never readable for longer or more than `mode` says."""
    from flinkpy.common.durable_file import sync_directory, unfinished_path

    unfinished = unfinished_path(path)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_directory(path.parent)
