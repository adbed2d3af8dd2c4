"""High availability with ZooKeeper, through kazoo, which is imported nowhere else."""
