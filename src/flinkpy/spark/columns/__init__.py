"""Operators over columns as operations of DataFrames: Catalyst plans them, and no Python worker is started."""
