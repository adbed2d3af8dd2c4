"""A real Apache Kafka broker for tests."""
