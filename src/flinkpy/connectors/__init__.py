"""The connectors that come with flinkpy: `number_sequence`, `collection`, `file_source`, `file_sink`, `print_sink`,
`discard_sink`, `collect_sink`.

A source's own module imports neither pyarrow nor numpy, because the JobMaster loads it for its enumerator; what the
tasks need is in the reader modules.
"""
