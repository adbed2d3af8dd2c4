"""`flinkpy token`: a token for a program that is not to have the cluster secret."""

from __future__ import annotations

import click

from flinkpy.cli.options import configuration_options, load_valid_configuration

_ROLES = ("read", "submit", "cluster")


@click.command()
@configuration_options
@click.option(
    "--role",
    type=click.Choice(_ROLES),
    default="read",
    show_default=True,
    help="`read` looks, `submit` runs jobs too, `cluster` may do what the services do.",
)
def token(role: str, config_dir: str | None, properties: tuple[str, ...], verbose: bool) -> None:
    """Print a token made of the cluster secret.

    It is good until the secret is changed. A program shows it as the metadata `authorization: Bearer TOKEN`; flinkpy's
    own clients take it from FLINKPY_TOKEN, `security.token-file` or `security.token`.
    """
    from flinkpy.cli.cluster import running_cluster, use_secret_of
    from flinkpy.common.errors import SecretError
    from flinkpy.security import ClusterSecret, Role
    from flinkpy.security.security_context import secret_file

    entries = load_valid_configuration(config_dir, properties, {}).to_dict()
    recorded = running_cluster(entries)
    if recorded is not None:
        use_secret_of(recorded, entries)
    path = secret_file(entries)
    if not path.exists():
        raise SecretError(f"there is no cluster secret in {path}: it is made when a cluster is started first")
    click.echo(ClusterSecret.load(path).token(Role[role.upper()]))
