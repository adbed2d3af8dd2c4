"""A real node of OpenSearch for tests."""
