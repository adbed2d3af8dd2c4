"""Flink's logical types of SQL, the rules for merging and casting them, and their Arrow form."""
