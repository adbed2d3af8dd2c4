"""Gives Spark the options of flinkpy for S3, so that it reaches the buckets of a job's sources and of its staging.

They go to the driver over its connection, and from there to the executors, like all settings of Spark. They are on no
command line and in no plan. Spark redacts them in its web pages and event logs.
"""

from __future__ import annotations

import re
from dataclasses import replace

from flinkpy.configuration.core_options import (
    S3_ACCESS_KEY,
    S3_ENDPOINT,
    S3_PATH_STYLE_ACCESS,
    S3_REGION,
    S3_SECRET_KEY,
    S3_SESSION_TOKEN,
)
from flinkpy.configuration.options import AnyConfiguration, read_option
from flinkpy.connectors.file_source import FileSource
from flinkpy.graph.operator_specs import SourceSpec
from flinkpy.graph.spark_region import SparkRegion
from flinkpy.spark.settings import SparkSettings

_S3 = re.compile(r"s3[anp]?://", re.IGNORECASE)
_PREFIX = "spark.hadoop.fs.s3a."


def with_s3(settings: SparkSettings, region: SparkRegion, configuration: AnyConfiguration) -> SparkSettings:
    """Returns the settings with the options for S3, if the region has files there. Settings of Spark win.

    A Spark Connect server keeps its own options: a session cannot set them.
    """
    stages_in_s3 = settings.staging_dir is not None and _S3.match(settings.staging_dir) is not None
    if settings.is_connect or not (stages_in_s3 or _reads_s3(region)):
        return settings
    return replace(settings, conf={**s3_defaults(configuration), **settings.conf})


def _reads_s3(region: SparkRegion) -> bool:
    sources = [node.spec.source for node in region.nodes if isinstance(node.spec, SourceSpec)]
    return any(_S3.match(path) for source in sources if isinstance(source, FileSource) for path in source.paths)


def s3_defaults(configuration: AnyConfiguration) -> dict[str, str]:
    """Returns the settings of Spark that have the meaning of flinkpy's options for S3."""
    endpoint = read_option(configuration, S3_ENDPOINT)
    # With an endpoint, pyarrow takes this region, and Hadoop would ask AWS.
    region = read_option(configuration, S3_REGION) or ("us-east-1" if endpoint else None)
    found = {
        "access.key": read_option(configuration, S3_ACCESS_KEY),
        "secret.key": read_option(configuration, S3_SECRET_KEY),
        "session.token": read_option(configuration, S3_SESSION_TOKEN),
        "endpoint": endpoint,
        "endpoint.region": region,
    }
    if endpoint:
        found["path.style.access"] = str(bool(read_option(configuration, S3_PATH_STYLE_ACCESS))).lower()
        found["connection.ssl.enabled"] = str(not endpoint.startswith("http://")).lower()
    return {f"{_PREFIX}{key}": value for key, value in found.items() if value is not None}
