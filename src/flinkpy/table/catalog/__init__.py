"""Catalogs: where tables, views and functions are found by name."""
