"""The guard of `execution.program-config.enabled`: what a program may not set itself.

Source: org.apache.flink.client.program.StreamContextEnvironment (`MutatedConfigurationException`).
"""

from __future__ import annotations

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import application_options
from flinkpy.configuration.loading import load_configuration
from flinkpy.configuration.options import read_option


def check_program_configuration(configuration: Configuration) -> None:
    """Returns where the program set nothing that it may not set.

    The cluster's side decides: a program cannot allow itself what the configuration it was started with does not.

    Raises: ConfigurationError naming every such option.
    """
    given = load_configuration()
    if read_option(given, application_options.PROGRAM_CONFIG_ENABLED):
        return
    allowed = read_option(given, application_options.PROGRAM_CONFIG_WILDCARDS)
    before, now = given.to_dict(), configuration.to_dict()
    changed = [
        f"`{key}`: {now[key]!r}" if key in now else f"`{key}`: removed"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key) and not any(key == one or key.startswith(f"{one}.") for one in allowed)
    ]
    if changed:
        raise ConfigurationError(
            f"the program sets options, which `execution.program-config.enabled` forbids here: {', '.join(changed)}. "
            "Set them for the cluster (config.yaml or -D), or list what programs may set in "
            "`execution.program-config.wildcards`"
        )
