"""What the configuration says of batch jobs, for the parts of the JobMaster that adapt and recover them."""

from __future__ import annotations

from flinkpy.configuration import batch_options, read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.jobmaster.scheduler.adaptive_batch.adaptive_parallelism import AdaptiveParallelismOptions


def adaptive_parallelism_options(configuration: AnyConfiguration) -> AdaptiveParallelismOptions:
    """Raises: ConfigurationError naming the option."""
    most = read_option(configuration, batch_options.AUTO_PARALLELISM_MAX)
    sources = read_option(configuration, batch_options.AUTO_PARALLELISM_SOURCES)
    return AdaptiveParallelismOptions(
        is_enabled=read_option(configuration, batch_options.AUTO_PARALLELISM_ENABLED),
        min_parallelism=read_option(configuration, batch_options.AUTO_PARALLELISM_MIN),
        max_parallelism=most,
        bytes_per_task=read_option(configuration, batch_options.AUTO_PARALLELISM_DATA_VOLUME),
        source_parallelism=sources,
    )
