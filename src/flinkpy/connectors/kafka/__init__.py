"""Sources and a sink for Apache Kafka, on confluent-kafka.

`docs/kafka.md` is the user's page. Decisions 0016 and 0032 explain how the sink delivers exactly once.
"""
