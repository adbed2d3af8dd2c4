"""Batch plans: which parts of a query an embedded engine computes, and their text in the language of that engine."""
