"""The slots a JobMaster has, wants and waits for. Pure: events in, effects out."""
