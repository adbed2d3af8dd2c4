"""Formats of tables: how connectors read and write the records of files and messages."""
