"""A Spark with the connectors of Iceberg and Delta, for tests. It may be older than the one that other tests use."""
