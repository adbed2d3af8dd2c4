"""Connectors of tables: factories that make sources and sinks from the options of a table."""
