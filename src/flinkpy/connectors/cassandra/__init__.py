"""The Cassandra connector: executes a query for every row, with the client `cassandra-driver`."""
