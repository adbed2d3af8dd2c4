"""The RabbitMQ connector: reads and writes queues, with the client `pika`."""
