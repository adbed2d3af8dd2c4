"""The values of options of hints."""

from __future__ import annotations

from flinkpy.common.errors import ConfigurationError, ValidationError


def duration_ms(text: str) -> int:
    """Returns the milliseconds of a duration such as `1 d` or `10s`. Raises: ValidationError for other texts."""
    from flinkpy.configuration.values import parse_duration_ms

    try:
        return parse_duration_ms(text)
    except (ConfigurationError, ValueError) as error:
        raise ValidationError(f"Invalid duration '{text}' in a hint; write for example '1 h' or '30 s'.") from error
