"""Options of who may call whom, and of TLS.

Source: org.apache.flink.configuration.SecurityOptions.
"""

from __future__ import annotations

from flinkpy.configuration.options import ConfigOption, OptionType, bool_option, enum_option, int_option, string_option

STORE_TYPES = ("PEM", "PKCS12")

SECRET_FILE = string_option(
    "security.secret-file",
    None,
    "File of the cluster secret, the same on all hosts of a cluster, made at the first start with mode 0600; where "
    "unset that of the environment variable FLINKPY_SECRET_FILE, else `secret` in the run directory (`env.pid.dir`).",
)
TOKEN = string_option(
    "security.token",
    None,
    "Token that a client shows on its calls, as `flinkpy token` prints it; where unset, and `security.token-file` too, "
    "that of the environment variable FLINKPY_TOKEN, else a submit token made of the cluster secret.",
)
TOKEN_FILE = string_option("security.token-file", None, "File of the token that a client shows on its calls.")
INSECURE = bool_option(
    "security.insecure",
    False,
    "Whether addresses that other hosts reach may be bound without mutual TLS. Calls are encrypted and need their "
    "tokens all the same, but everybody on the network can read and change the records that TaskExecutors exchange.",
)
UMASK = enum_option(
    "security.umask",
    ("077", "027", "007", "022"),
    "077",
    "Permissions that job graphs, metadata and state of checkpoints, blobs and logs do not have. 077: only the user "
    "that runs the cluster reads them; 027: his group too; 007: his group changes them too; 022: everybody reads them. "
    "What user functions and sinks write has the permissions of the shell that the cluster was started from.",
)
INTERNAL_ENABLED = bool_option(
    "security.ssl.internal.enabled",
    False,
    "Whether all connections of the cluster and of its clients use TLS, both sides showing a certificate.",
)
INTERNAL_KEYSTORE = string_option(
    "security.ssl.internal.keystore",
    None,
    "File of this process's private key and certificates.",
    "security.ssl.keystore",
)
INTERNAL_KEYSTORE_PASSWORD = string_option(
    "security.ssl.internal.keystore-password", None, "Password of the key store.", "security.ssl.keystore-password"
)
INTERNAL_KEY_PASSWORD = string_option(
    "security.ssl.internal.key-password",
    None,
    "Password of the private key; where unset that of the key store.",
    "security.ssl.key-password",
)
INTERNAL_TRUSTSTORE = string_option(
    "security.ssl.internal.truststore",
    None,
    "File of the certificates of the authorities that sign those of all peers.",
    "security.ssl.truststore",
)
INTERNAL_TRUSTSTORE_PASSWORD = string_option(
    "security.ssl.internal.truststore-password",
    None,
    "Password of the trust store.",
    "security.ssl.truststore-password",
)


def _store_type(key: str, store: str) -> ConfigOption[str | None]:
    description = f"Format of the {store}, `PEM` or `PKCS12`; told from the file where unset."
    return ConfigOption(key, OptionType.ENUM, None, description, (), STORE_TYPES)


INTERNAL_KEYSTORE_TYPE = _store_type("security.ssl.internal.keystore-type", "key store")
INTERNAL_TRUSTSTORE_TYPE = _store_type("security.ssl.internal.truststore-type", "trust store")
INTERNAL_CERT_FINGERPRINT = string_option(
    "security.ssl.internal.cert.fingerprint",
    None,
    "SHA-1 or SHA-256 fingerprints, separated by commas, of which a peer's certificate must have one.",
)
INTERNAL_HANDSHAKE_TIMEOUT = int_option(
    "security.ssl.internal.handshake-timeout",
    -1,
    "Milliseconds that a TLS handshake of the data plane may take; 10 seconds where -1.",
    minimum=-1,
)
