"""JvmView: the names of a driver's JVM, each of which is looked up once.

PySpark looks up `org.apache.spark.sql.functions.col` in the JVM for every column that it makes: the class, the function
and then the call are three round trips. A region makes hundreds of columns.
"""

from __future__ import annotations

from typing import Any


class JvmView:
    """Stands for py4j's JVMView, for one of its packages, or for one of its classes. Thread: any.

    Names never change their meaning in a JVM, except that `java_import` adds short names. So import before.

    Args:
        named: the object of py4j.
    """

    def __init__(self, named: Any) -> None:
        self._named = named

    def __getattr__(self, name: str) -> Any:
        """Called for names that were not asked for before."""
        if name.startswith("__"):  # Python's own questions, such as those of `copy`
            raise AttributeError(name)
        found = _view_of(getattr(self._named, name))
        # Python finds it in the object from now on. If two threads ask at once, both get an equal object.
        self.__dict__[name] = found
        return found

    def __call__(self, *arguments: Any) -> Any:
        """Creates an object of the class."""
        return self._named(*arguments)


def _view_of(found: Any) -> Any:
    """Returns a view of a package or class. Other things, such as functions, are used as they are."""
    from py4j.java_gateway import JavaClass, JavaPackage

    return JvmView(found) if isinstance(found, JavaClass | JavaPackage) else found
