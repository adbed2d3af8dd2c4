"""Apache Kafka: a source of partitions and a sink with transactions, on confluent-kafka.

`docs/kafka.md` is the user's page; decision 0016 says how a sink delivers exactly once.
"""
