"""The relational nodes of logical plans."""
