"""The slot pool of a JobMaster. Pure: events in, effects out."""
