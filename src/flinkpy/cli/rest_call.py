"""RestCaller: calls of a command to the REST server of a cluster."""

from __future__ import annotations

import json
import ssl
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
            raise ExternalError(f"the REST server at {self.url} cannot be reached: {_cause(self.url, error)}") from None


def _cause(url: str, error: OSError | ValueError) -> str:
    """Returns why a call failed. A failed handshake names the option that may be missing."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        from flinkpy.security.tls_material import verification_failure

        return (
            f"{verification_failure(cause.verify_message, 'of its host')}. `security.ssl.rest.truststore` names the "
            "file with the authority of the REST server"
        )
    # Python's servers close the connection of a client whose certificate they refuse, mostly without an alert.
    if url.startswith("https:") and isinstance(cause, ssl.SSLError | ConnectionResetError | BrokenPipeError):
        return (
            f"{cause}. If it requires certificates of clients (`security.ssl.rest.authentication-enabled`), "
            "`security.ssl.rest.keystore` names the file with the private key and the certificate of this client, and "
            "`security.ssl.rest.truststore` must be set too"
        )
    return str(cause)
