"""Connects the network and the operators: input processing, watermarks, record writers."""
