"""The scheduler of a job: slots, deployment and failover of pipelined regions. Pure: events in, effects out."""
