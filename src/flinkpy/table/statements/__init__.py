"""Statements of SQL that define, change and list objects of catalogs."""
