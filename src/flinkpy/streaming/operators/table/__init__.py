"""The operators of SQL and the Table API. They process changelogs in columns."""
