"""`flinkpy dashboard`: opens the page of the REST server in a browser."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING

import click

from flinkpy.cli.jobs import connect
from flinkpy.cli.json_output import json_option, print_json
from flinkpy.cli.options import cluster_address_option, configuration_options, load_valid_configuration
from flinkpy.cli.rest_call import RestCaller
from flinkpy.common.errors import UserError

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.security import SecurityContext

_TIMEOUT_S = 10.0


@click.command()
@configuration_options
@cluster_address_option
@click.option("--read-only", is_flag=True, help="Allow the browser to look, but not to cancel or to run anything.")
@click.option("--history", is_flag=True, help="Open the page of the history server.")
@click.option("--no-browser", is_flag=True, help="Print the link only.")
@json_option
def dashboard(
    address: str | None,
    read_only: bool,
    history: bool,
    no_browser: bool,
    as_json: bool,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Print a link that logs a browser in to the REST server, and open it.

    The link is valid once and for a minute. The browser then stays logged in for twelve hours.
    """
    from flinkpy.security import Role, SecurityContext

    configuration = load_valid_configuration(config_dir, properties, {})
    if history:
        url = _history_url(configuration)
    else:
        with connect(configuration, address) as client:
            url = client.request_cluster_overview().rest_url
    security = SecurityContext.of_client(configuration)
    if not url:
        raise UserError(
            "this cluster has no REST server: `rest.enabled` is false, or the Dispatcher is an older release"
        )
    if read_only:
        if security.secret is None:
            raise UserError("--read-only needs the cluster secret: a token has its role already")
        security = security.with_role(Role.READ)
    link = url + _ticket(url, security, configuration)
    if as_json:
        print_json({"link": link, "rest_url": url})
    else:
        click.echo(link)
    if not no_browser:
        webbrowser.open(link)


def _history_url(configuration: Configuration) -> str:
    """Returns the URL of the history server: the one configured, or that of the server that this user runs here."""
    from flinkpy.common.addresses import LOOPBACK
    from flinkpy.configuration import history_options, read_option, rest_options
    from flinkpy.configuration.options import is_set
    from flinkpy.historyserver.url_file import find_url

    if not any(is_set(configuration, one) for one in (history_options.WEB_ADDRESS, history_options.WEB_PORT)):
        found = find_url(configuration)
        if found is not None:
            return found

    host = read_option(configuration, history_options.WEB_ADDRESS) or LOOPBACK
    has_tls = any(
        read_option(configuration, option) for option in (history_options.WEB_SSL_ENABLED, rest_options.SSL_ENABLED)
    )
    port = read_option(configuration, history_options.WEB_PORT)
    return f"{'https' if has_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _ticket(url: str, security: SecurityContext, configuration: Configuration) -> str:
    """Returns the path of a link that logs in. Raises: ExternalError if the REST server does not answer."""
    path: str = RestCaller(url, security, configuration).call("POST", "/v1/dashboard/ticket", _TIMEOUT_S)["path"]
    return path
