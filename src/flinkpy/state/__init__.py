"""Managed state: what operators keep between records, owned by key groups."""
