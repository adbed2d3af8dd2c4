"""PyFlink's `pyflink.datastream.formats`: what files hold."""
