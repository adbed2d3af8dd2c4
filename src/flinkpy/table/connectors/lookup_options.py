"""The options of connectors that can be looked up: retries, and the cache of found rows.

Source: org.apache.flink.table.connector.source.lookup.LookupOptions.
"""

from __future__ import annotations

from typing import Any

from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.graph.table_specs import LookupCacheOptions
from flinkpy.table.connectors.table_options import TableOptions

CACHE = ConfigOption(
    "lookup.cache", OptionType.ENUM, "NONE", "Whether found rows are kept.", choices=("NONE", "PARTIAL")
)
CACHE_ROWS: ConfigOption[int | None] = ConfigOption(
    "lookup.partial-cache.max-rows",
    OptionType.INT,
    None,
    "The largest number of rows kept.",
    ("lookup.cache.max-rows",),
    minimum=1,
)
CACHE_AFTER_WRITE: ConfigOption[int | None] = ConfigOption(
    "lookup.partial-cache.expire-after-write",
    OptionType.DURATION,
    None,
    "How long a row is kept.",
    ("lookup.cache.ttl",),
)
CACHE_AFTER_ACCESS: ConfigOption[int | None] = ConfigOption(
    "lookup.partial-cache.expire-after-access", OptionType.DURATION, None, "How long an unused row is kept."
)
CACHE_MISSING = ConfigOption(
    "lookup.partial-cache.cache-missing-key",
    OptionType.BOOL,
    True,
    "True to keep that a key has no row.",
    ("lookup.cache.caching-missing-key",),
)
MAX_RETRIES = ConfigOption("lookup.max-retries", OptionType.INT, 3, "How often a failed lookup is repeated.", minimum=0)

LOOKUP_OPTIONS: tuple[ConfigOption[Any], ...] = (
    CACHE,
    CACHE_ROWS,
    CACHE_AFTER_WRITE,
    CACHE_AFTER_ACCESS,
    CACHE_MISSING,
    MAX_RETRIES,
)


def lookup_cache_of(options: TableOptions) -> LookupCacheOptions | None:
    """Returns the limits of the rows that a join keeps; None if it keeps none."""
    if options.get(CACHE) == "NONE":
        return None
    expiry = (options.get(CACHE_AFTER_ACCESS), options.get(CACHE_AFTER_WRITE))
    return LookupCacheOptions(options.get(CACHE_ROWS), *expiry, options.get(CACHE_MISSING))
