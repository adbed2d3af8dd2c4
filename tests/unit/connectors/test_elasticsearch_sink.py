"""The Elasticsearch sink and a server of the bulk API that stores documents, or refuses them."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from bulk_server import BulkServer, running_bulk_server
from connector_fakes import TestingWriterContext

from flinkpy.common import Row
from flinkpy.common.errors import ConfigurationError, ElasticsearchError, TypeMismatchError
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    FlushBackoffType,
)
from flinkpy.records.batch import Batch


@pytest.fixture
def cluster() -> Iterator[BulkServer]:
    with running_bulk_server() as server:
        yield server


STATIC = ElasticsearchEmitter.static_index("users", "id")


def builder(cluster: BulkServer, emitter: ElasticsearchEmitter = STATIC) -> Elasticsearch7SinkBuilder:
    return Elasticsearch7SinkBuilder().set_hosts(cluster.address).set_emitter(emitter)


@contextmanager
def writing(sink: Any, context: TestingWriterContext | None = None) -> Iterator[Any]:
    writer = sink.create_writer(context or TestingWriterContext())
    try:
        yield writer
    finally:
        writer.close()


ADA, LUNA = {"name": "ada", "id": "1"}, {"name": "luna", "id": "2"}


def test_documents_go_to_one_index_under_their_key(cluster: BulkServer) -> None:
    with writing(builder(cluster).build()) as writer:
        writer.write(Batch([ADA, LUNA, {"name": "ada again", "id": "1"}]))
        assert cluster.requests == []
        writer.flush(True)
    assert cluster.documents == {("users", "1"): {"name": "ada again", "id": "1"}, ("users", "2"): LUNA}
    assert [number for _, _, number in cluster.requests] == [3]


def test_a_field_names_the_index(cluster: BulkServer) -> None:
    with writing(builder(cluster, ElasticsearchEmitter.dynamic_index("name", "id")).build()) as writer:
        writer.write(Batch([ADA, LUNA]))
        writer.flush(True)
    assert set(cluster.documents) == {("ada", "1"), ("luna", "2")}


@pytest.mark.parametrize(
    "emitter", [ElasticsearchEmitter.static_index("users"), ElasticsearchEmitter.dynamic_index("index")]
)
def test_without_a_key_each_record_is_a_document(cluster: BulkServer, emitter: ElasticsearchEmitter) -> None:
    with writing(builder(cluster, emitter).build()) as writer:
        writer.write(Batch([{"index": "users", "n": 1}, {"index": "users", "n": 1}]))
        writer.flush(True)
    assert len(cluster.documents) == 2


def test_elasticsearch_6_gets_the_document_type(cluster: BulkServer) -> None:
    emitter = ElasticsearchEmitter.static_index("users", "id", "person")
    sink = Elasticsearch6SinkBuilder().set_hosts([cluster.address]).set_emitter(emitter).build()
    with writing(sink) as writer:
        writer.write(Batch([ADA]))
        writer.flush(True)
    assert cluster.types == {"person"}


def test_rows_with_names_and_values_that_json_lacks_become_documents(cluster: BulkServer) -> None:
    row = Row(id=7, price=Decimal("1.5"), day=datetime.date(2026, 1, 2), raw=b"\x00", inner=Row(a=1))
    with writing(builder(cluster).build()) as writer:
        writer.write(Batch([row]))
        writer.flush(True)
    expected = {"id": 7, "price": 1.5, "day": "2026-01-02", "raw": "AA==", "inner": {"a": 1}}
    assert cluster.documents == {("users", "7"): expected}


def test_request_is_sent_at_the_limit_of_actions_or_bytes(cluster: BulkServer) -> None:
    with writing(builder(cluster).set_bulk_flush_max_actions(2).build()) as writer:
        writer.write(Batch([ADA, LUNA, ADA]))
        writer._worker.wait_until_done()
    assert [number for _, _, number in cluster.requests] == [2]
    sink = builder(cluster).set_bulk_flush_max_actions(-1).set_bulk_flush_max_size_mb(1).build()
    with writing(sink) as writer:
        writer.write(Batch([{"id": str(number), "text": "x" * 300_000} for number in range(5)]))
        writer._worker.wait_until_done()
    assert [number for _, _, number in cluster.requests] == [2, 4]


def test_buffered_actions_are_sent_after_the_interval(cluster: BulkServer) -> None:
    context = TestingWriterContext()
    with writing(builder(cluster).set_bulk_flush_interval(70).build(), context) as writer:
        writer.write(Batch([ADA]))
        ((delay_ms, action),) = context.timers
        assert delay_ms == 70
        action(0)
        writer._worker.wait_until_done()
        assert set(cluster.documents) == {("users", "1")}


@pytest.mark.parametrize(("guarantee", "expected"), [(DeliveryGuarantee.AT_LEAST_ONCE, 1), (DeliveryGuarantee.NONE, 0)])
def test_checkpoint_waits_for_documents_with_at_least_once(
    cluster: BulkServer, guarantee: DeliveryGuarantee, expected: int
) -> None:
    with writing(builder(cluster).set_delivery_guarantee(guarantee).build()) as writer:
        writer.write(Batch([ADA]))
        writer.flush(False)
        assert len(cluster.documents) == expected


def test_only_refused_actions_are_sent_again(cluster: BulkServer) -> None:
    cluster.refusals["1"] = [429, 429]
    sink = builder(cluster).set_bulk_flush_backoff_strategy(FlushBackoffType.EXPONENTIAL, 3, 1).build()
    with writing(sink) as writer:
        writer.write(Batch([ADA, LUNA]))
        writer.flush(True)
        sends = writer.send_metrics
    assert len(cluster.documents) == 2
    assert [number for _, _, number in cluster.requests] == [2, 1, 1]
    assert sends.num_errors == 2 and sends.last_send_ms == 0
    emitter = ElasticsearchEmitter.static_index("users", "id")
    assert sends.num_bytes == sum(len(emitter.action(document).lines) for document in (ADA, LUNA))


def test_a_busy_cluster_fails_the_job_after_the_last_try(cluster: BulkServer) -> None:
    cluster.answers += [503] * 5
    sink = builder(cluster).set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 2, 1).build()
    with writing(sink) as writer, pytest.raises(ElasticsearchError, match=r"503.*busy"):
        writer.write(Batch([ADA]))
        writer.flush(True)
    assert len(cluster.requests) == 3


def test_without_a_backoff_the_first_refusal_fails_the_job(cluster: BulkServer) -> None:
    cluster.refusals["1"] = [429]
    with writing(builder(cluster).build()) as writer, pytest.raises(ElasticsearchError, match="'users', document '1'"):
        writer.write(Batch([ADA]))
        writer.flush(True)


def test_a_document_that_does_not_fit_is_named_and_not_tried_again(cluster: BulkServer) -> None:
    cluster.refusals["2"] = [400]
    sink = builder(cluster).set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 5, 1).build()
    with writing(sink) as writer, pytest.raises(ElasticsearchError, match="document '2': 400, refused: because 400"):
        writer.write(Batch([ADA, LUNA]))
        writer.flush(True)
    assert len(cluster.requests) == 1


def test_the_task_goes_on_while_a_request_is_sent(cluster: BulkServer) -> None:
    answer = cluster.hold()
    with writing(builder(cluster).set_bulk_flush_max_actions(1).build()) as writer:
        writer.write(Batch([ADA]))
        writer.write(Batch([LUNA]))
        assert cluster.documents == {}
        answer.set()
        writer.flush(True)
        assert len(cluster.documents) == 2


def test_an_error_of_a_request_reaches_a_later_one_and_stops_the_rest(cluster: BulkServer) -> None:
    cluster.refusals["1"] = [400]
    with writing(builder(cluster).set_bulk_flush_max_actions(1).build()) as writer:
        with pytest.raises(ElasticsearchError, match="document '1': 400"):
            for _ in range(5):
                writer.write(Batch([ADA]))
        assert len(cluster.requests) == 1


def test_next_host_is_used_when_one_does_not_answer(cluster: BulkServer) -> None:
    sink = builder(cluster).set_hosts(["127.0.0.1:1", f"http://{cluster.address}"])
    sink.set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 1, 1)
    with writing(sink.build()) as writer:
        writer.write(Batch([ADA]))
        writer.flush(True)
    assert set(cluster.documents) == {("users", "1")}


def test_error_names_the_host_that_does_not_answer() -> None:
    sink = Elasticsearch7SinkBuilder().set_hosts("127.0.0.1:1").set_emitter(STATIC).build()
    with writing(sink) as writer, pytest.raises(ElasticsearchError, match=r"at 127\.0\.0\.1:1: ConnectionRefused"):
        writer.write(Batch([ADA]))
        writer.flush(True)


def test_path_prefix_and_credentials_are_sent(cluster: BulkServer) -> None:
    sink = builder(cluster).set_connection_path_prefix("foo-bar").set_connection_username("me")
    sink = sink.set_connection_password("pw").set_connection_request_timeout(1).set_connection_timeout(9_000)
    with writing(sink.set_socket_timeout(9_000).build()) as writer:
        writer.write(Batch([ADA]))
        writer.flush(True)
    token = base64.b64encode(b"me:pw").decode()
    assert cluster.requests == [("/foo-bar/_bulk", f"Basic {token}", 1)]


def test_error_names_a_record_that_cannot_be_a_document(cluster: BulkServer) -> None:
    with writing(builder(cluster).build()) as writer:
        with pytest.raises(TypeMismatchError, match="no field 'id'"):
            writer.write(Batch([{"name": "nobody"}]))
        with pytest.raises(TypeMismatchError, match="not 5"):
            writer.write(Batch([5]))
        with pytest.raises(TypeMismatchError, match="object has no JSON form"):
            writer.write(Batch([{"id": 1, "what": object()}]))


def test_builder_refuses_invalid_settings(cluster: BulkServer) -> None:
    with pytest.raises(ValueError, match="call set_emitter"):
        Elasticsearch7SinkBuilder().set_hosts("localhost:9200").build()
    with pytest.raises(ValueError, match="call set_hosts"):
        Elasticsearch7SinkBuilder().set_emitter(STATIC).build()
    with pytest.raises(ConfigurationError, match="'ftp://x' is not the address of an Elasticsearch host"):
        Elasticsearch7SinkBuilder().set_hosts("ftp://x").set_emitter(STATIC).build()
    with pytest.raises(ConfigurationError, match="does not support the EXACTLY_ONCE"):
        builder(cluster).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    with pytest.raises(ValueError, match="must be larger than 0"):
        builder(cluster).set_bulk_flush_max_actions(0)
