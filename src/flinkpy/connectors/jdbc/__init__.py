"""The JDBC connector: executes a SQL statement for every row, through Python's DB-API 2.0."""
