"""Operators: what turns the batches of a stream into other batches."""
