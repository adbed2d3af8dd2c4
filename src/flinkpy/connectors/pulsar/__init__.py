"""Apache Pulsar: topics as a source and a sink. On the client `pulsar-client`."""
