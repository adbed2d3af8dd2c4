"""Modules: named sets of functions that queries can call without a catalog. Source: pyflink.table.module."""

from flinkpy.table.module.module import HiveModule, Module, ModuleEntry

__all__ = ["HiveModule", "Module", "ModuleEntry"]
