"""ElasticsearchEmitter: what becomes of a record.

Source: org.apache.flink.connector.elasticsearch.sink.MapElasticsearchEmitter.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from typing import Any

from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.types import Row
from flinkpy.connectors.elasticsearch.bulk_client import Action


class ElasticsearchEmitter:
    """Records are dicts, or Rows with names; all fields are in the document. A key makes a later record replace an
    earlier one; without one each is a document of its own, under an id that Elasticsearch makes.
    """

    def __init__(self, j_emitter: str, doc_type: str | None, key_field: str | None, is_dynamic_index: bool) -> None:
        self._index = j_emitter
        self._doc_type = doc_type
        self._key_field = key_field
        self._is_dynamic_index = is_dynamic_index

    @staticmethod
    def static_index(index: str, key_field: str | None = None, doc_type: str | None = None) -> ElasticsearchEmitter:
        """All records into one index.

        Args:
            doc_type: of Elasticsearch 6, which needs one.
        """
        return ElasticsearchEmitter(index, doc_type, key_field, False)

    @staticmethod
    def dynamic_index(
        index_field: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Each record into the index that its field `index_field` names."""
        return ElasticsearchEmitter(index_field, doc_type, key_field, True)

    def action(self, record: Any) -> Action:
        """Raises: TypeMismatchError where the record has no such field, or cannot be JSON."""
        document = record.as_dict(True) if isinstance(record, Row) else record
        if not isinstance(document, dict):
            raise TypeMismatchError(f"Elasticsearch takes dicts, and Rows with names, not {record!r}")
        index = str(_field(document, self._index)) if self._is_dynamic_index else self._index
        meta = {"_index": index}
        if self._doc_type is not None:
            meta["_type"] = self._doc_type
        key = None
        if self._key_field is not None:
            key = meta["_id"] = str(_field(document, self._key_field))
        try:
            body = json.dumps(document, default=_as_json, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise TypeMismatchError(f"{record!r} cannot be a JSON document: {error}") from error
        head = json.dumps({"index": meta}, ensure_ascii=False)
        return Action(f"{head}\n{body}\n".encode(), index, key)


def _field(document: dict[str, Any], name: str) -> Any:
    value = document.get(name)
    if value is None:
        raise TypeMismatchError(f"the record {document!r} has no field {name!r}, which its index or its key is made of")
    return value


def _as_json(value: Any) -> Any:
    """Of what JSON has no form for, the one that Elasticsearch reads as such a type."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no JSON form")
