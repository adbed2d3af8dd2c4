"""Who leads, where leaders are found, and what survives them; `standalone` has one of each."""
