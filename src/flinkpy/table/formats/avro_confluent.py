"""The formats `avro-confluent` and `debezium-avro-confluent`: Avro records whose schemas are in a schema registry.

A message begins with the id of the schema that it was written with. It is decoded with that schema, and its fields are
matched with the columns by name.

Source: org.apache.flink.formats.avro.registry.confluent.{RegistryAvroFormatFactory, AvroConfluentFormatOptions} and
debezium.DebeziumAvroFormatFactory. Differs: stores of keys and certificates are PEM files, and aliases and defaults of
the reader's schema are not applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType, without_effect
from flinkpy.formats.avro_schema import AvroSchema
from flinkpy.formats.schema import MessageError
from flinkpy.formats.schema_registry import RegistrySettings, SchemaRegistry, split_schema_id, with_schema_id
from flinkpy.sql.types.logical_types import RowField, RowType, VarCharType
from flinkpy.table.connectors.changelog_mode import ALL, ChangelogMode
from flinkpy.table.formats.avro import AvroCoder, checked_schema, decoded_rows
from flinkpy.table.formats.json_changelogs import DEBEZIUM, INSERT, UPDATE_AFTER, JsonValueError
from flinkpy.table.formats.message_schemas import (
    DecodedChanges,
    TableDeserializationSchema,
    TableSerializationSchema,
)
from flinkpy.table.formats.table_format import TableFormat

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from flinkpy.table.connectors.table_options import TableOptions


def _text(key: str, description: str, *fallback_keys: str) -> ConfigOption[str | None]:
    return ConfigOption(key, OptionType.STRING, None, description, fallback_keys)


URL = _text("url", "The URLs of the schema registry, separated by commas.", "schema-registry.url")
SUBJECT = _text("subject", "The subject to which the schema belongs, for writing.", "schema-registry.subject")
SCHEMA = _text("schema", "The schema to write with; by default that of the columns.", "schema-registry.schema")
REGISTERS = ConfigOption(
    "auto.register.schemas", OptionType.BOOL, True, "False if the schema must be in the registry already."
)
KEYSTORE = _text("ssl.keystore.location", "A PEM file with the client's certificate and key.")
KEYSTORE_PASSWORD = _text("ssl.keystore.password", "The password of that key.")
TRUSTSTORE = _text("ssl.truststore.location", "A PEM file with the certificates of authorities.")
TRUSTSTORE_PASSWORD: ConfigOption[str | None] = without_effect(
    ConfigOption("ssl.truststore.password", OptionType.STRING, None, "Certificates in PEM have no password.")
)
BASIC_SOURCE = _text("basic-auth.credentials-source", "Where the user is found: USER_INFO or URL.")
BASIC_USER = _text("basic-auth.user-info", "The user as `name:password`.")
BEARER_SOURCE = _text("bearer-auth.credentials-source", "Where the token is found: STATIC_TOKEN.")
BEARER_TOKEN = _text("bearer-auth.token", "The bearer token.")
PROPERTIES = "properties."
#: The properties of the registry's client that flinkpy knows, as options.
_KNOWN_PROPERTIES = {"basic.auth.user.info": BASIC_USER, "bearer.auth.token": BEARER_TOKEN}


class _RegistryFormat(TableFormat):
    """A format with a schema registry."""

    required_options = (URL,)
    optional_options: Sequence[ConfigOption[Any]] = (
        SUBJECT,
        SCHEMA,
        REGISTERS,
        KEYSTORE,
        KEYSTORE_PASSWORD,
        TRUSTSTORE,
        TRUSTSTORE_PASSWORD,
        BASIC_SOURCE,
        BASIC_USER,
        BEARER_SOURCE,
        BEARER_TOKEN,
    )
    option_prefixes = (PROPERTIES,)

    def with_topic(self, options: TableOptions, topic: str, part: str) -> TableOptions:
        if options.contains(SUBJECT):
            return options
        return options.with_value(SUBJECT, f"{topic}-{part}")

    def _writing(self, options: TableOptions, row_type: RowType) -> RegistryWriting:
        subject, text = options.get(SUBJECT), options.get(SCHEMA)
        if subject is None:
            raise ValidationError(
                f"Option '{self.identifier}.{SUBJECT.key}' is required for serialization",
                details={"option": f"{self.identifier}.{SUBJECT.key}"},
            )
        schema = checked_schema(row_type) if text is None else _given_schema(text, row_type)
        return RegistryWriting(_settings(options), subject, schema, options.get(REGISTERS))


def _settings(options: TableOptions) -> RegistrySettings:
    """Returns the address of the registry. Raises: ValidationError."""
    properties = options.prefixed(PROPERTIES)
    unknown = sorted(set(properties) - set(_KNOWN_PROPERTIES))
    if unknown:
        raise ValidationError(
            f"The property '{unknown[0]}' of the schema registry is not supported. Supported properties are "
            + ", ".join(sorted(_KNOWN_PROPERTIES)),
            details={"option": f"{PROPERTIES}{unknown[0]}"},
        )
    for key, option in _KNOWN_PROPERTIES.items():
        if key in properties and not options.contains(option):
            options = options.with_value(option, properties[key])
    for option, allowed in ((BASIC_SOURCE, ("USER_INFO", "URL")), (BEARER_SOURCE, ("STATIC_TOKEN",))):
        source = options.get(option)
        if source is not None and source not in allowed:
            raise ValidationError(
                f"'{option.key}' is '{source}', but must be one of {', '.join(allowed)}",
                details={"option": option.key, "value": source},
            )
    urls = tuple(each.strip() for each in (options.get(URL) or "").split(",") if each.strip())
    user = None if options.get(BASIC_SOURCE) == "URL" else options.get(BASIC_USER)
    stores = (options.get(TRUSTSTORE), options.get(KEYSTORE), options.get(KEYSTORE_PASSWORD))
    return RegistrySettings(urls, user, options.get(BEARER_TOKEN), *stores)


def _given_schema(text: str, row_type: RowType) -> AvroSchema:
    """Returns the schema of the option. Raises: ValidationError if the rows do not fit."""
    try:
        schema = AvroSchema(text)
    except ValueError as error:
        raise ValidationError(f"Could not parse Avro schema string: {error}", details={"option": "schema"}) from error
    branches = schema.definition if isinstance(schema.definition, list) else [schema.definition]
    records = [each for each in branches if isinstance(each, dict) and each.get("type") == "record"]
    names = tuple(field["name"] for each in records for field in each["fields"])
    if set(names) != set(row_type.names):
        raise ValidationError(
            f"The schema of option 'schema' has the fields {', '.join(names)}, but the columns are "
            f"{', '.join(row_type.names)}",
            details={"option": "schema"},
        )
    return schema


class RegistryWriting:
    """Writes records with the id of their schema. Picklable. Thread: any, one at a time."""

    def __init__(self, settings: RegistrySettings, subject: str, schema: AvroSchema, registers: bool) -> None:
        self._settings = settings
        self._subject = subject
        self._coder = AvroCoder(schema)
        self._registers = registers
        self._registry: SchemaRegistry | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_registry": None}

    def encode(self, records: Sequence[dict[str, Any]]) -> list[bytes | None]:
        """Returns one message per record. Raises: SchemaRegistryError, TypeMismatchError."""
        if self._registry is None:
            self._registry = SchemaRegistry(self._settings)
        schema_id = self._registry.id_of(self._subject, str(self._coder.schema), self._registers)
        return [with_schema_id(schema_id, record) for record in self._coder.encode(records)]


class RegistryReading:
    """Reads records with the schemas of their writers. Picklable. Thread: any, one at a time."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._registry: SchemaRegistry | None = None
        self._decoders: dict[int, Callable[[bytes], dict[str, Any]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_registry": None, "_decoders": {}}

    def decode(self, message: bytes) -> dict[str, Any]:
        """Returns the record of a message. Raises: SchemaRegistryError, DECODE_ERRORS."""
        schema_id, record = split_schema_id(message)
        decoder = self._decoders.get(schema_id)
        if decoder is None:
            if self._registry is None:
                self._registry = SchemaRegistry(self._settings)
            decoder = self._decoders[schema_id] = AvroCoder(AvroSchema(self._registry.schema_of(schema_id))).decoder()
        return decoder(record)


class AvroConfluentTableFormat(_RegistryFormat):
    """Rows."""

    identifier = "avro-confluent"

    def deserialization_schema(self, row_type: RowType, options: TableOptions) -> TableDeserializationSchema:
        checked_schema(row_type)
        return _RowReader(row_type, _settings(options))

    def serialization_schema(self, row_type: RowType, options: TableOptions) -> TableSerializationSchema:
        return _RowWriter(row_type, self._writing(options, row_type))


class DebeziumAvroConfluentTableFormat(_RegistryFormat):
    """Changes of Debezium: records of the row before and after the change. An update is written as two changes."""

    identifier = "debezium-avro-confluent"

    @property
    def changelog_mode(self) -> ChangelogMode:
        return ALL

    def deserialization_schema(self, row_type: RowType, options: TableOptions) -> TableDeserializationSchema:
        checked_schema(row_type)
        return _ChangeReader(row_type, _settings(options))

    def serialization_schema(self, row_type: RowType, options: TableOptions) -> TableSerializationSchema:
        return _ChangeWriter(row_type, self._writing(options, _envelope_type(row_type)))


def _envelope_type(row_type: RowType) -> RowType:
    row = RowType(row_type.fields)
    return RowType((RowField("before", row), RowField("after", row), RowField("op", VarCharType())), nullable=False)


class _RowReader(TableDeserializationSchema):
    def __init__(self, row_type: RowType, settings: RegistrySettings) -> None:
        super().__init__(row_type)
        self._reading = RegistryReading(settings)

    def decode(self, messages: Sequence[bytes | None]) -> DecodedChanges:
        return decoded_rows(messages, self._reading.decode, self.row_type)


class _RowWriter(TableSerializationSchema):
    def __init__(self, row_type: RowType, writing: RegistryWriting) -> None:
        super().__init__(row_type)
        self._writing = writing

    def encode(self, rows: pa.RecordBatch, kinds: np.ndarray | None) -> list[bytes | None]:
        from flinkpy.table.formats.avro_columns import AvroColumns

        return self._writing.encode(AvroColumns(self.row_type).records_of(rows))


class _ChangeReader(_RowReader):
    def decode(self, messages: Sequence[bytes | None]) -> DecodedChanges:
        import numpy as np

        decoded = decoded_rows(messages, self._reading.decode, _envelope_type(self.row_type))
        errors = list(decoded.errors)
        rows: list[int] = []
        is_before: list[bool] = []
        kinds: list[int] = []
        befores, afters, operations = decoded.rows.columns
        envelope = {
            "before": befores.is_valid().to_pylist(),
            "after": afters.is_valid().to_pylist(),
            "op": operations.to_pylist(),
        }
        for row, (before, after, operation) in enumerate(zip(*envelope.values())):
            message = {"before": before or None, "after": after or None, "op": operation}
            try:
                changes = list(DEBEZIUM.changes(message))
            except JsonValueError as error:
                errors.append(MessageError(int(decoded.positions[row]), str(error)))
                continue
            for kind, _ in changes:
                rows.append(row)
                is_before.append(kind not in (INSERT, UPDATE_AFTER))
                kinds.append(kind.value)
        found = _taken(befores, afters, np.array(rows, np.int64), np.array(is_before, bool), self.row_type)
        positions = decoded.positions[np.array(rows, np.int64)]
        return DecodedChanges(found, np.array(kinds, np.int8), positions, sorted(errors))


def _taken(
    befores: pa.Array, afters: pa.Array, rows: np.ndarray, is_before: np.ndarray, row_type: RowType
) -> pa.RecordBatch:
    """Returns for each number in `rows` the row before or after that change."""
    import numpy as np
    import pyarrow as pa

    from flinkpy.sql.types.arrow import schema_of

    both = pa.concat_arrays([befores, afters])
    found = both.take(pa.array(np.where(is_before, rows, rows + len(befores))))
    return pa.RecordBatch.from_arrays(found.flatten(), schema=schema_of(row_type))


class _ChangeWriter(_RowWriter):
    def encode(self, rows: pa.RecordBatch, kinds: np.ndarray | None) -> list[bytes | None]:
        from flinkpy.table.formats.avro_columns import AvroColumns

        records = AvroColumns(self.row_type).records_of(rows)
        inserts = (INSERT.value, UPDATE_AFTER.value)
        is_insert = [True] * len(records) if kinds is None else [kind in inserts for kind in kinds.tolist()]
        return self._writing.encode(
            [
                {"before": None, "after": record, "op": "c"} if added else {"before": record, "after": None, "op": "d"}
                for record, added in zip(records, is_insert)
            ]
        )
