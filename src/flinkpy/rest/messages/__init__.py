"""Request and response bodies. Field names, types and sentinel values (-1, null) are those of Flink 2.3.0."""
