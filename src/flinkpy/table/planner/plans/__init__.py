"""Compiled plans: physical nodes as JSON, and back."""
