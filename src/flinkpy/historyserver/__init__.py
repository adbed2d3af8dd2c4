"""The history server: shows jobs and applications that have ended, from the archives that Dispatchers write.

`archive_fetcher` reads the archives into an `archive_store`, and `flinkpy.rest.history` serves them.
"""
