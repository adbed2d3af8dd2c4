"""Rows into a database, by a statement of the user: the connector that Flink calls JDBC, on Python's DB-API 2.0."""
