"""Bodies of the operations that explain options. They are flinkpy's own."""

from __future__ import annotations

import msgspec


class ExplainedOption(msgspec.Struct, kw_only=True):
    """An option that is set. The values of passwords and other secrets are hidden.

    `source` is JOB or CLUSTER. `effect` is ACTS, IGNORED (an option of Flink that flinkpy accepts and does not use), or
    UNKNOWN (a key that neither knows, e.g. of the user's own).
    """

    key: str
    value: str
    source: str
    effect: str
    description: str
    default_value: str | None = msgspec.field(name="default")


class ExplainedOptions(msgspec.Struct, kw_only=True):
    """Options that are set, by their keys."""

    options: list[ExplainedOption]
