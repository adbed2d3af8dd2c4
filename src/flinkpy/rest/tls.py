"""TLS of the REST server."""

from __future__ import annotations

import logging
import ssl

from flinkpy.common.addresses import is_loopback
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import rest_options
from flinkpy.configuration.options import AnyConfiguration, read_option
from flinkpy.security import SecurityContext, TlsMaterial
from flinkpy.security.key_stores import StoreOptions, load_rest_client_material, load_rest_tls_material

logger = logging.getLogger(__name__)

_STORES = StoreOptions(
    section="security.ssl.rest",
    keystore=rest_options.SSL_KEYSTORE,
    keystore_password=rest_options.SSL_KEYSTORE_PASSWORD,
    key_password=rest_options.SSL_KEY_PASSWORD,
    keystore_type=rest_options.SSL_KEYSTORE_TYPE,
    truststore=rest_options.SSL_TRUSTSTORE,
    truststore_password=rest_options.SSL_TRUSTSTORE_PASSWORD,
    truststore_type=rest_options.SSL_TRUSTSTORE_TYPE,
    fingerprints=rest_options.SSL_CERT_FINGERPRINT,
)


def rest_tls_material(configuration: AnyConfiguration, security: SecurityContext) -> TlsMaterial | None:
    """Returns the keys and certificates of the REST server: those configured, else those of the cluster secret.

    None: the server has no TLS. Raises: ConfigurationError naming the option or the file.
    """
    is_mutual = read_option(configuration, rest_options.SSL_AUTHENTICATION_ENABLED)
    if not read_option(configuration, rest_options.SSL_ENABLED):
        if is_mutual:
            raise ConfigurationError(
                "`security.ssl.rest.authentication-enabled` needs `security.ssl.rest.enabled`",
                details={"option": rest_options.SSL_AUTHENTICATION_ENABLED.key},
            )
        return None
    if read_option(configuration, rest_options.SSL_KEYSTORE) is None:
        if security.derived_tls is None or is_mutual:
            raise ConfigurationError(
                "`security.ssl.rest.enabled` needs `security.ssl.rest.keystore` where `security.ssl.internal.enabled` "
                "or `security.ssl.rest.authentication-enabled` is set",
                details={"option": rest_options.SSL_KEYSTORE.key},
            )
        return security.derived_tls
    material = load_rest_tls_material(configuration, _STORES, is_mutual=is_mutual)
    try:
        material.server_context()
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"TLS of the REST server cannot work with {material.source}: {error.reason or error}"
        ) from None
    return material


def check_rest_bind(bind_address: str, *, has_tls: bool, security: SecurityContext) -> None:
    """Raises: ConfigurationError if other hosts reach the address and could read the tokens sent to it."""
    if has_tls or is_loopback(bind_address.strip("[]")):
        return
    if not security.is_insecure:
        raise ConfigurationError(
            f"cannot bind the REST server to {bind_address}: other hosts could reach it, and without TLS they could "
            "read the tokens of its callers. Set `security.ssl.rest.enabled: true`, or bind a loopback address, or "
            "accept this on a network you trust with `--insecure` (`security.insecure: true`)",
            details={"address": bind_address},
        )
    logger.warning(
        "INSECURE: the REST server is bound to %s without TLS; tokens and sessions cross the network in clear",
        bind_address,
    )


def rest_client_context(configuration: AnyConfiguration, security: SecurityContext) -> ssl.SSLContext:
    """Returns the TLS context of a client: it trusts the configured trust store, else the authority of the cluster.

    The certificate must have the name of the host that the client calls. The client shows the certificate of the
    configured key store, if there is one, to servers that ask for it (mutual TLS).

    Raises: ConfigurationError naming the option or the file.
    """
    if read_option(configuration, rest_options.SSL_TRUSTSTORE) is not None:
        material = load_rest_client_material(configuration, _STORES)
    elif security.derived_tls is not None:
        material = security.derived_tls
    else:
        return ssl.create_default_context()
    try:
        return material.client_context()
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"TLS to the REST server cannot work with {material.source}: {error.reason or error}"
        ) from None
