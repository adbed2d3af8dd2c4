"""Numbers and names that state, time and side outputs share. Source: pyflink.common.constants."""

from __future__ import annotations

#: The largest and smallest LONG: the watermark after the last record, and the one before the first.
MAX_LONG_VALUE = 0x7FFFFFFFFFFFFFFF
MIN_LONG_VALUE = -MAX_LONG_VALUE - 1

#: The id of what is no side output.
DEFAULT_OUTPUT_TAG = ""
