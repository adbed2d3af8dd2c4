"""The slot pool of a JobMaster. Pure: its methods return effects."""
