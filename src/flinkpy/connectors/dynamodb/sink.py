"""DynamoDbSink: puts and deletes the items of a table at least once, with an AsyncWriter.

Source: org.apache.flink.connector.dynamodb.sink.{DynamoDbSink, DynamoDbSinkWriter}. Differs: changes of one key stay in
order, because the next one waits for the answer to the request with the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flinkpy.common.errors import DynamoDbError, FlinkError
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.aws.async_writer import AsyncWriter, BufferSettings, Entry, EntrySink, Refusal
from flinkpy.connectors.aws.client import new_client
from flinkpy.records.batch import Batch

#: DynamoDB takes no more items in a request.
MAX_BATCH_SIZE = 25
DEFAULT_BUFFER = BufferSettings(
    max_batch_size=MAX_BATCH_SIZE, max_batch_size_in_bytes=16 << 20, max_record_size_in_bytes=400 << 10
)
#: The code of items that the service did not process, because it is too busy.
_UNPROCESSED = "ThrottlingException"


class DynamoDbWriteRequest(NamedTuple):
    """A change of an item.

    Attributes:
        item: attributes in DynamoDB's form, such as {"id": {"N": "1"}}; only those of the key if it is deleted.
        key: what identifies the item, such as the values of its key; None if no two changes have the same one.
    """

    item: dict[str, Any]
    is_deletion: bool
    key: Any


class DynamoDbSink(SinkBase):
    """Writes items.

    Args:
        requests_of: returns the changes of a batch. Pickled into the job.
        properties: the properties of the client.
        fails_on_error: True if every refused item fails the job, and not only what can never succeed.
    """

    def __init__(
        self,
        table: str,
        requests_of: Callable[[Batch], list[DynamoDbWriteRequest]],
        properties: Mapping[str, str],
        settings: BufferSettings,
        fails_on_error: bool,
        make_client: Callable[..., Any] = new_client,
    ) -> None:
        self.table = table
        self.requests_of = requests_of
        self.properties = dict(properties)
        self.settings = settings
        self.fails_on_error = fails_on_error
        self.make_client = make_client

    def create_writer(self, context: WriterContext) -> SinkWriter:
        client = self.make_client("dynamodb", self.properties, self.settings.max_in_flight_requests)
        return AsyncWriter(context, _ItemEntries(self, client), self.settings, self.fails_on_error)

    def __repr__(self) -> str:
        return f"DynamoDbSink({self.table!r})"


class _ItemEntries(EntrySink):
    def __init__(self, sink: DynamoDbSink, client: Any) -> None:
        self.name = f"DynamoDB table {sink.table!r}"
        self._sink = sink
        self._client = client

    def entries_of(self, batch: Batch) -> list[Entry]:
        return [
            Entry(
                {"DeleteRequest": {"Key": item}} if is_deletion else {"PutRequest": {"Item": item}},
                sum(len(name.encode()) + _size_of(value) for name, value in item.items()),
                key,
            )
            for item, is_deletion, key in self._sink.requests_of(batch)
        ]

    def send(self, requests: list[dict[str, Any]]) -> list[Refusal]:
        answer = self._client.batch_write_item(RequestItems={self._sink.table: requests})
        unprocessed = list(answer.get("UnprocessedItems", {}).get(self._sink.table, ()))
        refusals = []
        for position, request in enumerate(requests):
            if request in unprocessed:
                unprocessed.remove(request)
                refusals.append(Refusal(position, _UNPROCESSED, "the service did not process the item"))
        return refusals

    def failure(self, reason: str, code: str) -> FlinkError:
        return DynamoDbError(f"{self.name}: {reason}", details={"code": code})


def _size_of(attribute: dict[str, Any]) -> int:
    """Returns about as many bytes as DynamoDB counts for a value."""
    ((kind, value),) = attribute.items()
    if kind == "L":
        return 3 + sum(1 + _size_of(each) for each in value)
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _size_of(each) for name, each in value.items())
    if kind == "B":
        return len(value)
    return len(value.encode()) if kind in ("S", "N") else 1
