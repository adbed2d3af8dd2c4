"""RabbitMQ: a queue as a source, and as a sink. On the client `pika`."""
