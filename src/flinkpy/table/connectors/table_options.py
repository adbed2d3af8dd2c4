"""TableOptions: the checked WITH options of a table, with Flink's errors for missing and unknown ones.

Source: org.apache.flink.table.factories.FactoryUtil.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from flinkpy.common.errors import ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.configuration.redaction import HIDDEN, is_sensitive

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

CONNECTOR: ConfigOption[str | None] = ConfigOption(
    "connector", OptionType.STRING, None, "The connector that reads and writes the table."
)
FORMAT: ConfigOption[str | None] = ConfigOption(
    "format", OptionType.STRING, None, "The format of the records, for reading and writing."
)
SINK_PARALLELISM: ConfigOption[int | None] = ConfigOption(
    "sink.parallelism", OptionType.INT, None, "The parallelism of the sink; by default that of its input.", minimum=1
)
SCAN_PARALLELISM: ConfigOption[int | None] = ConfigOption(
    "scan.parallelism", OptionType.INT, None, "The parallelism of the source; by default that of the job.", minimum=1
)
WATERMARK_EMIT_STRATEGY: ConfigOption[str] = ConfigOption(
    "scan.watermark.emit.strategy",
    OptionType.ENUM,
    "on-periodic",
    "When watermarks are emitted.",
    choices=("on-periodic", "on-event"),
)
WATERMARK_EMIT_GAP: ConfigOption[int] = ConfigOption(
    "scan.watermark.emit.on-event.gap", OptionType.INT, 1, "The events between two watermarks."
)
WATERMARK_IDLE_TIMEOUT: ConfigOption[int | None] = ConfigOption(
    "scan.watermark.idle-timeout", OptionType.DURATION, None, "When a source without rows is idle."
)
WATERMARK_ALIGNMENT_GROUP: ConfigOption[str | None] = ConfigOption(
    "scan.watermark.alignment.group", OptionType.STRING, None, "The alignment group."
)
WATERMARK_ALIGNMENT_MAX_DRIFT: ConfigOption[int | None] = ConfigOption(
    "scan.watermark.alignment.max-drift", OptionType.DURATION, None, "The largest drift in the group."
)
WATERMARK_ALIGNMENT_UPDATE_INTERVAL: ConfigOption[int] = ConfigOption(
    "scan.watermark.alignment.update-interval", OptionType.DURATION, 1_000, "How often drift is compared."
)
WATERMARK_OPTIONS: tuple[ConfigOption[Any], ...] = (
    WATERMARK_EMIT_STRATEGY,
    WATERMARK_EMIT_GAP,
    WATERMARK_IDLE_TIMEOUT,
    WATERMARK_ALIGNMENT_GROUP,
    WATERMARK_ALIGNMENT_MAX_DRIFT,
    WATERMARK_ALIGNMENT_UPDATE_INTERVAL,
)


class TableOptions:
    """The options of one table.

    Args:
        raw: the options as written.
        owner: describes the table in errors, such as "table 'default_catalog.default_database.t'".
    """

    def __init__(self, raw: Mapping[str, str], owner: str) -> None:
        self.raw = dict(raw)
        self._owner = owner

    def get(self, option: ConfigOption[T]) -> T:
        """Returns the value, or the default. Raises: ValidationError naming the option and its value."""
        for key in (option.key, *option.fallback_keys):
            if key in self.raw:
                try:
                    return option.parse(self.raw[key])
                except ValueError as error:
                    raise ValidationError(
                        f"Invalid value for option '{key}' of {self._owner}: '{self.raw[key]}' ({error})",
                        details={"option": key, "value": self.raw[key]},
                    ) from None
        return option.default

    def contains(self, option: ConfigOption[Any]) -> bool:
        return any(key in self.raw for key in (option.key, *option.fallback_keys))

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Returns the options that begin with a prefix, without it."""
        return {key.removeprefix(prefix): value for key, value in self.raw.items() if key.startswith(prefix)}

    def below(self, prefix: str) -> TableOptions:
        """Returns the options of a format: those that begin with `prefix`, without it."""
        return TableOptions(self.prefixed(prefix), self._owner)

    def with_value(self, option: ConfigOption[Any], text: str) -> TableOptions:
        """Returns the options with another value of one."""
        return TableOptions({**self.raw, option.key: text}, self._owner)

    def check(
        self,
        factory: str,
        required: Sequence[ConfigOption[Any]],
        optional: Sequence[ConfigOption[Any]],
        ignored_prefixes: Sequence[str] = (),
        ignored: Sequence[str] = (),
    ) -> None:
        """Checks that all required options are there, that there are no unknown ones, and that all values are valid.

        Args:
            factory: the connector or format, for errors.
            ignored_prefixes, ignored: options that others check.

        Options that change nothing are logged with a warning.

        Raises: ValidationError, which lists the missing, or the unknown and the supported options.
        """
        missing = sorted(option.key for option in required if not self.contains(option))
        if missing:
            raise ValidationError(
                f"One or more required options are missing for '{factory}' of {self._owner}.\n\n"
                f"Missing required options are:\n\n" + "\n".join(missing),
                details={"options": ",".join(missing)},
            )
        known = {key for option in (*required, *optional) for key in (option.key, *option.fallback_keys)}
        unknown = sorted(
            key
            for key in self.raw
            if key not in known and key not in ignored and not key.startswith(tuple(ignored_prefixes))
        )
        if unknown:
            supported = sorted({*known, *ignored, *(f"{prefix}*" for prefix in ignored_prefixes)})
            raise ValidationError(
                f"Unsupported options found for '{factory}' of {self._owner}.\n\nUnsupported options:\n\n"
                + "\n".join(_with_hint(key, known) for key in unknown)
                + "\n\nSupported options:\n\n"
                + "\n".join(supported),
                details={"options": ",".join(unknown)},
            )
        for option in (*required, *optional):
            self.get(option)
            if not option.has_effect and self.contains(option):
                _LOG.warning("Option '%s' of %s has no effect: %s", option.key, self._owner, option.description)

    def shown(self) -> str:
        """Returns the options as in WITH, one per line, with secrets hidden."""
        return "\n".join(
            f"'{key}'='{HIDDEN if is_sensitive(key) else value}'" for key, value in sorted(self.raw.items())
        )


def _with_hint(key: str, known: set[str]) -> str:
    close = difflib.get_close_matches(key, known, 1)
    return f"{key} (did you mean '{close[0]}'?)" if close else key


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns a question with the known name that is most like a wrong one; "" if none is."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"\n\nDid you mean '{close[0]}'?" if close else ""
