"""Options of authentication, authorization and TLS.

Source: org.apache.flink.configuration.SecurityOptions.
"""

from __future__ import annotations

from flinkpy.configuration.options import ConfigOption, OptionType, bool_option, enum_option, int_option, string_option

STORE_TYPES = ("PEM", "PKCS12")

SECRET_FILE = string_option(
    "security.secret-file",
    None,
    "File with the cluster secret. It must be the same on all hosts of a cluster; the first start creates it with "
    "mode 0600. Default: the environment variable FLINKPY_SECRET_FILE, or `secret` in the run directory "
    "(`env.pid.dir`).",
)
TOKEN = string_option(
    "security.token",
    None,
    "Token that a client sends with its calls, as printed by `flinkpy token`. Default: `security.token-file`, the "
    "environment variable FLINKPY_TOKEN, or a submit token derived from the cluster secret.",
)
TOKEN_FILE = string_option("security.token-file", None, "File with the token that a client sends with its calls.")
INSECURE = bool_option(
    "security.insecure",
    False,
    "Allow binding to addresses that other hosts can reach without mutual TLS. Calls are still encrypted and need "
    "tokens, but everyone on the network can read and change the records that TaskExecutors exchange.",
)
UMASK = enum_option(
    "security.umask",
    ("077", "027", "007", "022"),
    "077",
    "Permissions to remove from job graphs, checkpoint metadata and state, blobs and logs. 077: only the user that "
    "runs the cluster can read them; 027: the group can read them; 007: the group can also change them; 022: "
    "everyone can read them. Files of user functions and sinks get the permissions of the shell that started the "
    "cluster.",
)
INTERNAL_ENABLED = bool_option(
    "security.ssl.internal.enabled",
    False,
    "Use TLS for all connections of the cluster and its clients. Both sides must present a certificate.",
)
INTERNAL_KEYSTORE = string_option(
    "security.ssl.internal.keystore",
    None,
    "File with the private key and the certificates of this process.",
    "security.ssl.keystore",
)
INTERNAL_KEYSTORE_PASSWORD = string_option(
    "security.ssl.internal.keystore-password", None, "Password of the key store.", "security.ssl.keystore-password"
)
INTERNAL_KEY_PASSWORD = string_option(
    "security.ssl.internal.key-password",
    None,
    "Password of the private key. Default: the password of the key store.",
    "security.ssl.key-password",
)
INTERNAL_TRUSTSTORE = string_option(
    "security.ssl.internal.truststore",
    None,
    "File with the certificates of the authorities that sign the certificates of all peers.",
    "security.ssl.truststore",
)
INTERNAL_TRUSTSTORE_PASSWORD = string_option(
    "security.ssl.internal.truststore-password",
    None,
    "Password of the trust store.",
    "security.ssl.truststore-password",
)


def _store_type(key: str, store: str) -> ConfigOption[str | None]:
    description = f"Format of the {store}: `PEM` or `PKCS12`. Default: detected from the file."
    return ConfigOption(key, OptionType.ENUM, None, description, (), STORE_TYPES)


INTERNAL_KEYSTORE_TYPE = _store_type("security.ssl.internal.keystore-type", "key store")
INTERNAL_TRUSTSTORE_TYPE = _store_type("security.ssl.internal.truststore-type", "trust store")
INTERNAL_CERT_FINGERPRINT = string_option(
    "security.ssl.internal.cert.fingerprint",
    None,
    "SHA-1 or SHA-256 fingerprints, separated by commas. The certificate of a peer must match one of them.",
)
INTERNAL_HANDSHAKE_TIMEOUT = int_option(
    "security.ssl.internal.handshake-timeout",
    -1,
    "Timeout of a TLS handshake of the data plane in milliseconds. -1 means 10 seconds.",
    minimum=-1,
)
