"""Documents into Elasticsearch, by its bulk API; speaks HTTP itself and needs no client library."""
