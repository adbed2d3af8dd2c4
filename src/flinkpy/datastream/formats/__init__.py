"""PyFlink's `pyflink.datastream.formats`: the formats of files and messages."""
