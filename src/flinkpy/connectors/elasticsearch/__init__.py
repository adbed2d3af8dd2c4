"""The Elasticsearch connector: writes documents with the bulk API, without a client library."""
