"""Generated from proto/ by tools/gen_proto.py; never edited by hand."""
