"""The client of Amazon Web Services, and the writer of many requests at a time, which its connectors share."""
