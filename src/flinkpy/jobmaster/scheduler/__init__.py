"""Decides what runs when: regions, slots for them, deployment, failover. Pure: events in, effects out."""
