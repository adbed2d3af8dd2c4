"""MongoConnectionOptions: the address of a collection, and the client that reaches it.

Source: org.apache.flink.connector.mongodb.common.config.MongoConnectionOptions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flinkpy.common.errors import ConfigurationError, MongoError, UnsupportedOperationError

#: The field that identifies a document.
ID = "_id"


def load_pymongo() -> Any:
    """Returns the module. Raises: UnsupportedOperationError if it is not installed."""
    try:
        import pymongo
    except ImportError as error:
        raise UnsupportedOperationError("MongoDB needs its client: pip install 'flinkpy[mongodb]'") from error
    return pymongo


@dataclass(frozen=True, slots=True)
class MongoConnectionOptions:
    """A collection.

    Attributes:
        uri: the address, such as mongodb://user:password@host:27017.
    """

    uri: str = field(repr=False)
    database: str
    collection: str

    @property
    def namespace(self) -> str:
        """The name of the collection with its database."""
        return f"{self.database}.{self.collection}"

    def check(self) -> None:
        """Raises: ConfigurationError if the URI is invalid; UnsupportedOperationError if there is no client."""
        pymongo = load_pymongo()
        from pymongo.uri_parser import parse_uri

        try:
            # Names of mongodb+srv are looked up in the DNS when the client is made.
            parse_uri(self.uri) if self.uri.startswith("mongodb://") else pymongo.MongoClient(self.uri, connect=False)
        except (pymongo.errors.PyMongoError, ValueError) as error:
            raise ConfigurationError(f"the URI of MongoDB is invalid: {error}") from error

    def open_client(self) -> Any:
        """Returns a new client, which any thread may use. It connects when it is used.

        Raises: UnsupportedOperationError, ConfigurationError.
        """
        pymongo = load_pymongo()
        from bson.codec_options import DatetimeConversion

        try:
            # Times are milliseconds since 1970, because Python's dates end with the year 9999.
            return pymongo.MongoClient(self.uri, datetime_conversion=DatetimeConversion.DATETIME_MS)
        except (pymongo.errors.PyMongoError, ValueError) as error:
            raise ConfigurationError(f"the URI of MongoDB is invalid: {error}") from error

    def collection_of(self, client: Any) -> Any:
        """Returns the collection of a client."""
        return client[self.database][self.collection]

    def error(self, what: str, error: Exception) -> MongoError:
        """Returns a MongoError that names the collection and what failed."""
        return MongoError(
            f"MongoDB collection {self.namespace}: {what}: {type(error).__name__}: {error}",
            details={"collection": self.namespace, "code": str(getattr(error, "code", "") or "")},
        )
