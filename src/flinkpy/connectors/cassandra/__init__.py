"""Rows into Apache Cassandra, by a query with a place for each field. On the client `cassandra-driver`."""
