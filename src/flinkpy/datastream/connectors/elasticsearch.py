"""The sink of Elasticsearch. PyFlink's `pyflink.datastream.connectors.elasticsearch`; needs no client library."""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import Any, TypeVar

from flinkpy.common.errors import ConfigurationError, UnsupportedOperationError
from flinkpy.connectors.elasticsearch.bulk_client import ConnectionSettings
from flinkpy.connectors.elasticsearch.sink import (
    BulkSettings,
    ElasticsearchEmitter,
    ElasticsearchSink,
    FlushBackoffType,
)
from flinkpy.datastream.connectors.base import DeliveryGuarantee

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "FlushBackoffType",
]

_Builder = TypeVar("_Builder", bound="ElasticsearchSinkBuilderBase")


class ElasticsearchSinkBuilderBase(abc.ABC):
    """Builds a sink. Hosts and an emitter are required. A limit of -1 means no limit."""

    @abc.abstractmethod
    def __init__(self) -> None:
        self._emitter: ElasticsearchEmitter | None = None
        self._connection: dict[str, Any] = {}
        self._bulk = BulkSettings()
        self._guarantee = DeliveryGuarantee.NONE

    @abc.abstractmethod
    def get_http_host_class(self) -> Any:
        """Raises UnsupportedOperationError: in PyFlink this is a Java class."""

    def set_emitter(self: _Builder, emitter: ElasticsearchEmitter) -> _Builder:
        if not isinstance(emitter, ElasticsearchEmitter):
            raise TypeError(f"{emitter!r} is not an ElasticsearchEmitter")
        self._emitter = emitter
        return self

    def set_hosts(self: _Builder, hosts: str | list[str]) -> _Builder:
        """Sets the hosts. If one does not answer, the next one is tried.

        Args:
            hosts: `host:port`, or an http or https URL; or a list of them.
        """
        hosts = hosts if isinstance(hosts, list) else [hosts]
        if not hosts:
            raise ValueError("Hosts cannot be empty.")
        return self._connect(hosts=tuple(hosts))

    def set_delivery_guarantee(self: _Builder, delivery_guarantee: DeliveryGuarantee) -> _Builder:
        """Sets the guarantee. With NONE (the default) buffered actions are lost in a failure. With AT_LEAST_ONCE a
        checkpoint waits until they are written.
        """
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ConfigurationError(
                "Elasticsearch sink does not support the EXACTLY_ONCE guarantee. With a key field, AT_LEAST_ONCE does."
            )
        self._guarantee = delivery_guarantee
        return self

    def set_bulk_flush_max_actions(self: _Builder, num_max_actions: int) -> _Builder:
        return self._limit("Max number of buffered actions", max_actions=num_max_actions)

    def set_bulk_flush_max_size_mb(self: _Builder, max_size_mb: int) -> _Builder:
        return self._limit("Max size of buffered actions", max_size_mb=max_size_mb)

    def set_bulk_flush_interval(self: _Builder, interval_millis: int) -> _Builder:
        return self._limit("Interval (in milliseconds) between each flush", interval_ms=interval_millis)

    def set_bulk_flush_backoff_strategy(
        self: _Builder, flush_backoff_type: FlushBackoffType, max_retries: int, delay_millis: int
    ) -> _Builder:
        """Sets how often and when a request is repeated if the cluster is too busy or does not answer.

        By default the job fails.
        """
        if not isinstance(flush_backoff_type, FlushBackoffType):
            raise TypeError(f"{flush_backoff_type!r} is not a FlushBackoffType")
        if flush_backoff_type is not FlushBackoffType.NONE and (max_retries <= 0 or delay_millis < 0):
            raise ValueError("Max number of backoff attempts must be larger than 0, and the delay not negative.")
        self._bulk = replace(self._bulk, backoff=flush_backoff_type, max_retries=max_retries, delay_ms=delay_millis)
        return self

    def set_connection_username(self: _Builder, username: str) -> _Builder:
        return self._connect(username=username)

    def set_connection_password(self: _Builder, password: str) -> _Builder:
        return self._connect(password=password)

    def set_connection_path_prefix(self: _Builder, prefix: str) -> _Builder:
        return self._connect(path_prefix=prefix)

    def set_connection_request_timeout(self: _Builder, timeout: int) -> _Builder:
        """Has no effect: each writer has its own connection and never waits for one."""
        return self

    def set_connection_timeout(self: _Builder, timeout: int) -> _Builder:
        """Sets the time to connect in milliseconds."""
        return self._connect(connection_timeout_ms=timeout)

    def set_socket_timeout(self: _Builder, timeout: int) -> _Builder:
        """Sets the time to wait for an answer in milliseconds."""
        return self._connect(socket_timeout_ms=timeout)

    def build(self) -> ElasticsearchSink:
        if self._emitter is None:
            raise ValueError("Emitter must be set before building the sink: call set_emitter")
        if "hosts" not in self._connection:
            raise ValueError("Hosts cannot be empty: call set_hosts")
        flushes = self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        return ElasticsearchSink(self._emitter, ConnectionSettings(**self._connection), self._bulk, flushes)

    def _connect(self: _Builder, **values: Any) -> _Builder:
        self._connection.update(values)
        return self

    def _limit(self: _Builder, what: str, **values: Any) -> _Builder:
        for value in values.values():
            if isinstance(value, bool) or not isinstance(value, int) or (value != -1 and value <= 0):
                raise ValueError(f"{what} must be larger than 0, or -1, not {value!r}.")
        self._bulk = replace(self._bulk, **values)
        return self


class Elasticsearch6SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds a sink of Elasticsearch 6, whose documents have types: the emitter needs a `doc_type`."""

    def __init__(self) -> None:
        super().__init__()

    def get_http_host_class(self) -> Any:
        raise UnsupportedOperationError("get_http_host_class: flinkpy has no JVM")


class Elasticsearch7SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds a sink of Elasticsearch 7 and later."""

    def __init__(self) -> None:
        super().__init__()

    def get_http_host_class(self) -> Any:
        raise UnsupportedOperationError("get_http_host_class: flinkpy has no JVM")
