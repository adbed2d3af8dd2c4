"""Managed state: the data that operators keep between records, divided into key groups."""
