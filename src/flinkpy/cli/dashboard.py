"""`flinkpy dashboard`: opens the page of the REST server in a browser."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
import webbrowser
from typing import TYPE_CHECKING

import click

from flinkpy.cli.jobs import connect
from flinkpy.cli.json_output import json_option, print_json
from flinkpy.cli.options import cluster_address_option, configuration_options, load_valid_configuration
from flinkpy.common.errors import ExternalError, UserError

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.security import SecurityContext

_TIMEOUT_S = 10.0


@click.command()
@configuration_options
@cluster_address_option
@click.option("--read-only", is_flag=True, help="Allow the browser to look, but not to cancel or to run anything.")
@click.option("--no-browser", is_flag=True, help="Print the link only.")
@json_option
def dashboard(
    address: str | None,
    read_only: bool,
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


def _ticket(url: str, security: SecurityContext, configuration: Configuration) -> str:
    """Returns the path of a link that logs in. Raises: ExternalError if the REST server does not answer."""
    from flinkpy.security import Audience

    request = urllib.request.Request(
        f"{url}/v1/dashboard/ticket",
        method="POST",
        headers={"Authorization": f"Bearer {security.token_for(Audience.DISPATCHER)}"},
    )
    # A proxy of the environment is not for this host.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if url.startswith("https:"):
        handlers.append(urllib.request.HTTPSHandler(context=_tls_context(security, configuration)))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT_S) as response:
            path: str = json.load(response)["path"]
    except urllib.error.HTTPError as error:
        raise ExternalError(f"the REST server at {url} refuses: {error.read(1000).decode(errors='replace')}") from None
    except OSError as error:
        raise ExternalError(f"the REST server at {url} cannot be reached: {error}") from None
    return path


def _tls_context(security: SecurityContext, configuration: Configuration) -> ssl.SSLContext:
    """Returns the TLS context that verifies the REST server: by its trust store, else by the cluster's authority."""
    from flinkpy.rest.tls import rest_client_context

    return rest_client_context(configuration, security)
