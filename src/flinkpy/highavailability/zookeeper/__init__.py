"""High availability with ZooKeeper. Only this package imports kazoo."""
