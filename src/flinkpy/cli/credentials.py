"""`flinkpy certs | token`: certificates for mutual TLS, and access tokens."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flinkpy.cli.json_output import json_option, print_json
from flinkpy.cli.options import configuration_options, load_valid_configuration
from flinkpy.common.errors import UserError

if TYPE_CHECKING:
    from flinkpy.security.certificates import Identity

AUTHORITY_KEY, AUTHORITY = "ca.key", "ca.pem"
#: Holders of certificates. Each name is also the name of the file.
SERVICE, CLIENT, ZOOKEEPER, REST = "service", "client", "zookeeper", "rest"


@click.command()
@click.argument("directory", type=click.Path(file_okay=False))
@click.option(
    "--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="Validity of the certificates."
)
@click.option("--renew", is_flag=True, help="Replace the certificates with new ones from the existing authority.")
@click.option(
    "--store-type",
    type=click.Choice(["PEM", "PKCS12"], case_sensitive=False),
    default="PEM",
    show_default=True,
    help="Format of the key stores; PKCS12 needs --password-file.",
)
@click.option(
    "--password-file", type=click.Path(exists=True, dir_okay=False), help="File whose first line is the password."
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME|ADDRESS",
    help="A name or address by which browsers reach the REST server; repeat it for several. localhost is always one.",
)
@json_option
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of an error.")
def certs(
    directory: str,
    days: int,
    hosts: tuple[str, ...],
    renew: bool,
    store_type: str,
    password_file: str | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Create a certificate authority and certificates for services, clients and ZooKeeper in DIRECTORY.

    Copy `service` and `ca` to the hosts of the services, `client` and `ca` to those of the clients, and `zookeeper`
    and `ca` to those of ZooKeeper if it uses TLS. Keep ca.key here: only --renew needs it. flinkpy's services and
    clients need no names of hosts in the certificates. Browsers and other clients of REST do: `rest` is for
    security.ssl.rest.keystore, and is valid for localhost and each --host.
    """
    from flinkpy.common.clock import SystemClock
    from flinkpy.security import PEER_NAME, ZOOKEEPER_NAME
    from flinkpy.security.certificates import (
        CLIENT_NAME,
        LOOPBACK,
        REST_NAME,
        check_host,
        make_authority,
        make_certificate,
    )

    place = Path(directory)
    password = _password(store_type.upper(), password_file)
    written: list[tuple[Path, str]] = []
    suffix = "pem" if password is None else "p12"
    now_ms = SystemClock().now_ms()
    for host in hosts:
        try:
            check_host(host)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--host") from None
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        if renew:
            authority = _authority_of(place)
            hosts = hosts or _hosts_of(place / f"{REST}.{suffix}")
        else:
            _refuse_to_overwrite(place)
            authority = make_authority(now_ms)
            _write(place / AUTHORITY_KEY, authority.key_pem, 0o600)
            _write(place / AUTHORITY, authority.certificate_pem, 0o644)
        trust_store = place / (AUTHORITY if password is None else "ca.p12")
        if password is not None:
            _write_trust_store(trust_store, authority, password)
        for label, name, names in (
            (SERVICE, PEER_NAME, ()),
            (CLIENT, CLIENT_NAME, ()),
            (ZOOKEEPER, ZOOKEEPER_NAME, ()),
            (REST, REST_NAME, (*LOOPBACK, *hosts)),
        ):
            identity = make_certificate(authority, name, now_ms, timedelta(days=days), names)
            content = (
                identity.key_pem + identity.certificate_pem
                if password is None
                else identity.as_pkcs12(name, authority, password)
            )
            _write(place / f"{label}.{suffix}", content, 0o600)
            written.append((place / f"{label}.{suffix}", identity.fingerprint))
    except OSError as error:
        raise UserError(f"the certificates cannot be written to {place}: {error.strerror}") from error
    configuration = {
        "security.ssl.internal.enabled": "true",
        "security.ssl.internal.keystore": str((place / f"{SERVICE}.{suffix}").absolute()),
        "security.ssl.internal.truststore": str(trust_store.absolute()),
    }
    if as_json:
        certificates = [{"path": str(path.absolute()), "sha256_fingerprint": print_} for path, print_ in written]
        print_json({"certificates": certificates, "configuration": configuration})
        return
    for path, fingerprint in written:
        click.echo(f"{path}: SHA-256 fingerprint {fingerprint}")
    click.echo("Configuration of the services (for clients, replace `service` with `client`):")
    for key, value in configuration.items():
        click.echo(f"{key}: {value}")


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
        *(f"{label}.{end}" for label in (SERVICE, CLIENT, ZOOKEEPER, REST) for end in ("pem", "p12")),
    )
    existing = [name for name in names if (place / name).exists()]
    if existing:
        raise UserError(
            f"{place} already contains {', '.join(existing)}, and nothing was changed. Use --renew for new "
            "certificates from the same authority, or another directory for a new authority"
        )


def _authority_of(place: Path) -> Identity:
    from flinkpy.security.certificates import Identity

    try:
        return Identity.of_pem((place / AUTHORITY_KEY).read_bytes(), (place / AUTHORITY).read_bytes())
    except FileNotFoundError as error:
        raise UserError(f"there is no authority to sign the certificates: {error.filename} is missing") from None
    except (ValueError, TypeError) as error:
        raise UserError(f"the authority in {place} cannot be used: {error}") from None


def _hosts_of(path: Path) -> tuple[str, ...]:
    """Returns the hosts of the REST server's present certificate, so that a new one has them too."""
    from flinkpy.security.certificates import LOOPBACK, Identity

    if not path.exists():
        return ()
    if path.suffix != ".pem":
        raise click.UsageError(f"{path} may name hosts, which are not read from a PKCS12 store: repeat --host for each")
    content = path.read_bytes()
    try:
        names = Identity.of_pem(content, content).hosts
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} cannot be used: {error}. Remove it, and repeat --host for each host") from None
    return tuple(name for name in names if name not in LOOPBACK)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Writes the file atomically. It never has more permissions than `mode`."""
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


_ROLES = ("read", "submit", "cluster")
_SERVICES = ("dispatcher", "resourcemanager", "jobmaster", "taskexecutor")
_SECONDS_PER_DAY = 86_400


@click.command()
@configuration_options
@click.option(
    "--role",
    type=click.Choice(_ROLES),
    default="read",
    show_default=True,
    help="Role of the token: `read` shows jobs, `submit` also runs them, `cluster` allows all calls of a service.",
)
@click.option(
    "--service",
    type=click.Choice(_SERVICES),
    default="dispatcher",
    show_default=True,
    help="Service that accepts the token. Clients call only the Dispatcher.",
)
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True, help="Validity of the token.")
@click.option(
    "--ca-file",
    type=click.Path(dir_okay=False),
    help="Also write the certificate authority (PEM) to this file.",
)
@json_option
def token(
    role: str,
    service: str,
    days: int,
    ca_file: str | None,
    as_json: bool,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Print an access token for a program that must not have the cluster secret.

    The token is valid for one kind of service, until it expires or the cluster secret changes. Clients of flinkpy read
    it from FLINKPY_TOKEN, `security.token-file` or `security.token`; it also tells them how to verify the cluster.
    Other programs send it as the metadata `authorization: Bearer TOKEN`. They must use TLS, trust the authority of
    --ca-file and check the name `flinkpy-internal`, so that only the cluster receives the token.
    """
    from flinkpy.cli.cluster import running_cluster, use_secret_of
    from flinkpy.common.clock import SystemClock
    from flinkpy.common.errors import SecretError, UserError
    from flinkpy.security import Audience, ClusterSecret, Role
    from flinkpy.security.access_token import with_authority
    from flinkpy.security.cluster_authority import authority_pem
    from flinkpy.security.security_context import secret_file

    entries = load_valid_configuration(config_dir, properties, {}).to_dict()
    recorded = running_cluster(entries)
    if recorded is not None:
        use_secret_of(recorded, entries)
    path = secret_file(entries)
    if not path.exists():
        raise SecretError(f"there is no cluster secret in {path}: the first start of a cluster creates it")
    secret = ClusterSecret.load(path)
    expires_s = SystemClock().now_ms() // 1000 + days * _SECONDS_PER_DAY
    authority = authority_pem(secret, path)
    if ca_file is not None:
        try:
            Path(ca_file).write_bytes(authority)
        except OSError as error:
            raise UserError(f"the authority cannot be written to {ca_file}: {error.strerror}") from None
    made = secret.token(Role[role.upper()], Audience(service), expires_s)
    shown = with_authority(made, authority)
    if as_json:
        print_json({"token": shown, "role": role, "service": service, "expiry_time_ms": expires_s * 1000})
    else:
        click.echo(shown)
