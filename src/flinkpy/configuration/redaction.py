"""Detection of settings whose values must not be shown.

Source: org.apache.flink.configuration.GlobalConfiguration#isSensitive. Differs: more words, because options of S3 and
Kafka contain access keys and credentials.
"""

from __future__ import annotations

from collections.abc import Mapping

HIDDEN = "****"

_WORDS = (
    "password",
    "passwd",
    "secret",
    "fs.azure.account.key",
    "apikey",
    "api-key",
    "api.key",
    "access-key",
    "access.key",
    "private-key",
    "private.key",
    "auth-params",
    "service-key",
    "token",
    "credential",
    "basic-auth",
    "jaas.config",
    "http-headers",
    "zookeeper.client.authorization",
)


def is_sensitive(key: str) -> bool:
    """True if the value of an option, or of any other setting with this name, must not be shown."""
    lowered = key.lower().replace("_", "-")
    return any(word in lowered for word in _WORDS)


def redacted(entries: Mapping[str, str]) -> dict[str, str]:
    """Returns the entries with `****` in place of sensitive values."""
    return {key: HIDDEN if is_sensitive(key) else value for key, value in entries.items()}
