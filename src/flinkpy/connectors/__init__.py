"""The connectors of flinkpy.

Bases for sources: `split_enumerator` and `split_reader` for splits that are known at the start and read one after the
other; `source_reader_base` for readers whose threads fetch records; `source_function` for a function in its own thread.

The module of a source should import neither pyarrow nor numpy, because the JobMaster loads it for the enumerator. The
module of the reader may, because only tasks load it.
"""
