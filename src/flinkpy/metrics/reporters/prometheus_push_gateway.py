"""PrometheusPushGatewayReporter: pushes metrics to a Prometheus PushGateway.

Source: org.apache.flink.metrics.prometheus.{PrometheusPushGatewayReporter,PrometheusPushGatewayReporterOptions}.
"""

from __future__ import annotations

import functools
import logging
import secrets
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, delete_from_gateway, push_to_gateway
from prometheus_client.exposition import basic_auth_handler

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option
from flinkpy.configuration.options import bool_option, string_option
from flinkpy.metrics.reporters.http_client import TIMEOUT_S, split_url
from flinkpy.metrics.reporters.metric_reporter import MetricReporter, ReportedMetric
from flinkpy.metrics.reporters.prometheus_families import FAMILY_OPTIONS, MetricFamilies

__all__ = ["PrometheusPushGatewayReporter"]

logger = logging.getLogger(__name__)

HOST_URL = string_option("hostUrl", None, "URL of the PushGateway, e.g. `http://gateway:9091`.")
JOB_NAME = string_option("jobName", "", "Name of the job under which metrics are pushed.")
RANDOM_JOB_NAME_SUFFIX = bool_option(
    "randomJobNameSuffix",
    True,
    "Append random characters to the name of the job. Without them processes replace each other's metrics.",
)
DELETE_ON_SHUTDOWN = bool_option(
    "deleteOnShutdown", True, "Delete the metrics from the PushGateway when the process ends in order."
)
GROUPING_KEY = string_option(
    "groupingKey", "", "Further labels of the group of the pushed metrics, e.g. `k1=v1;k2=v2`."
)
USERNAME = string_option("username", None, "User name for HTTP basic authentication.")
PASSWORD = string_option("password", None, "Password for HTTP basic authentication.")


class PrometheusPushGatewayReporter(MetricReporter):
    """Replaces the metrics of its group in the PushGateway with each report."""

    OPTIONS = (
        HOST_URL,
        JOB_NAME,
        RANDOM_JOB_NAME_SUFFIX,
        DELETE_ON_SHUTDOWN,
        GROUPING_KEY,
        *FAMILY_OPTIONS,
        USERNAME,
        PASSWORD,
    )

    def open(self, options: Mapping[str, str]) -> None:
        url = read_option(options, HOST_URL)
        if not url:
            raise ConfigurationError("the option `hostUrl`, the URL of the PushGateway, is not set")
        split_url(url)
        self._url = url
        suffix = secrets.token_hex(16) if read_option(options, RANDOM_JOB_NAME_SUFFIX) else ""
        self._job_name = read_option(options, JOB_NAME) + suffix
        if not self._job_name:
            raise ConfigurationError("the option `jobName` is empty, and `randomJobNameSuffix` is false")
        self._grouping_key = parse_grouping_key(read_option(options, GROUPING_KEY))
        self._is_deleted = read_option(options, DELETE_ON_SHUTDOWN)
        self._families = MetricFamilies(options)
        user, password = read_option(options, USERNAME), read_option(options, PASSWORD)
        if (user is None) != (password is None):
            raise ConfigurationError("of the options `username` and `password` only one is set")
        self._handler = functools.partial(basic_auth_handler, username=user, password=password)
        logger.info("Pushes metrics to %s as job %s", url, self._job_name)

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        registry = CollectorRegistry()
        registry.register(self._families.collected(metrics))
        push_to_gateway(
            self._url,
            self._job_name,
            registry,
            grouping_key=self._grouping_key,
            timeout=TIMEOUT_S,
            handler=self._handler,
        )

    def close(self) -> None:
        if self._is_deleted:
            delete_from_gateway(
                self._url,
                self._job_name,
                grouping_key=self._grouping_key,
                timeout=TIMEOUT_S,
                handler=self._handler,
            )


def parse_grouping_key(text: str) -> dict[str, str]:
    """Returns the labels of `k1=v1;k2=v2`. Raises: ConfigurationError.

    Differs: Flink ignores a part that is not `name=value`, with a warning.
    """
    labels = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise ConfigurationError(f"the option `groupingKey` has the part `{part}`: expected `name=value`")
        labels[name] = value
    return labels
