"""Typed options with Flink's keys and defaults, and the configuration files they are read from.

Each `<component>_options` module holds the options of one component. `read_option` is the only way to read an option.
"""

from __future__ import annotations

from flinkpy.configuration.loading import load_configuration
from flinkpy.configuration.options import ConfigOption, OptionType, read_option
from flinkpy.configuration.validation import validate

__all__ = ["ConfigOption", "OptionType", "load_configuration", "read_option", "validate"]
