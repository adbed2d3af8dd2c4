"""Infers which changes each operator sends to the next one."""
