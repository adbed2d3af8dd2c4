"""Binds syntax trees: names become columns, and expressions get types."""
