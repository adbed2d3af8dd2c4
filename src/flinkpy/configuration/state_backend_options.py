"""Where keyed state lives. Source: org.apache.flink.configuration.StateBackendOptions."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, enum_option

STATE_BACKEND = enum_option(
    "state.backend.type",
    ("hashmap", "rocksdb"),
    "hashmap",
    "Where keyed state is stored: `hashmap` as objects in memory, `rocksdb` on the local disk.",
)
CHANGELOG_ENABLED = bool_option(
    "state.changelog.enabled",
    False,
    "`true` is refused, because there is no changelog state backend. Use `rocksdb` for large state.",
)
