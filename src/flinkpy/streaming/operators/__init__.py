"""Operators: turn the batches of a stream into other batches."""
