"""RestCaller: calls of a command to the REST server of a cluster."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ExternalError

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.security import SecurityContext


class RestCaller:
    """Calls the REST server with the token of a client. Thread: any.

    Args:
        url: `http://host:port` or `https://host:port`.
        security: credentials of the client.
        configuration: its options, for TLS.
    """

    def __init__(self, url: str, security: SecurityContext, configuration: Configuration) -> None:
        self.url = url
        self._security = security
        # A proxy of the environment is not for a cluster.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if url.startswith("https:"):
            from flinkpy.rest.tls import rest_client_context

            handlers.append(urllib.request.HTTPSHandler(context=rest_client_context(configuration, security)))
        self._opener = urllib.request.build_opener(*handlers)

    def call(self, verb: str, path: str, timeout_s: float) -> Any:
        """Returns the JSON answer. Raises: ExternalError if the server refuses or does not answer."""
        from flinkpy.security import Audience

        request = urllib.request.Request(
            f"{self.url}{path}",
            method=verb,
            headers={"Authorization": f"Bearer {self._security.token_for(Audience.DISPATCHER)}"},
        )
        try:
            with self._opener.open(request, timeout=timeout_s) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            text = error.read(1000).decode(errors="replace")
            raise ExternalError(f"the REST server at {self.url} refuses: {text}") from None
        except (OSError, ValueError) as error:
            raise ExternalError(f"the REST server at {self.url} cannot be reached: {error}") from None
