"""`flinkpy token`: a token for a program that is not to have the cluster secret."""

from __future__ import annotations

from pathlib import Path

import click

from flinkpy.cli.options import configuration_options, load_valid_configuration

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
    help="`read` looks, `submit` runs jobs too, `cluster` may do what the services do.",
)
@click.option(
    "--service",
    type=click.Choice(_SERVICES),
    default="dispatcher",
    show_default=True,
    help="What it is for; clients call the Dispatcher only.",
)
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True, help="How long it is good.")
@click.option("--ca-file", type=click.Path(dir_okay=False), help="Write the cluster's authority (PEM) there as well.")
def token(
    role: str,
    service: str,
    days: int,
    ca_file: str | None,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Print a token made of the cluster secret.

    It is good for one kind of service, and until it expires or the secret is changed. flinkpy's own clients take it
    from FLINKPY_TOKEN, `security.token-file` or `security.token`, and it tells them how to recognise the cluster.
    Another program shows it as the metadata `authorization: Bearer TOKEN`, over TLS that trusts the authority and
    checks the name `flinkpy-internal`, so that nothing else than the cluster gets to see it.
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
        raise SecretError(f"there is no cluster secret in {path}: it is made when a cluster is started first")
    secret = ClusterSecret.load(path)
    expires_s = SystemClock().now_ms() // 1000 + days * _SECONDS_PER_DAY
    authority = authority_pem(secret, path)
    if ca_file is not None:
        try:
            Path(ca_file).write_bytes(authority)
        except OSError as error:
            raise UserError(f"the authority cannot be written to {ca_file}: {error.strerror}") from None
    made = secret.token(Role[role.upper()], Audience(service), expires_s)
    click.echo(with_authority(made, authority))
