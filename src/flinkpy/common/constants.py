"""Constants of time and side outputs. Source: pyflink.common.constants."""

from __future__ import annotations

#: The largest and smallest LONG: the watermarks after the last record and before the first record.
MAX_LONG_VALUE = 0x7FFFFFFFFFFFFFFF
MIN_LONG_VALUE = -MAX_LONG_VALUE - 1

#: The output tag id of the main output.
DEFAULT_OUTPUT_TAG = ""
