"""The Pulsar connector: reads and writes topics, with the client `pulsar-client`."""
