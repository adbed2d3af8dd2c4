"""F and Window: PySpark's functions and windows, which make nothing while a node is only checked.

Each column that PySpark makes is a call to the JVM or more. A check only asks if every operation has an exact equal in
Spark, so it needs no columns. It runs without a JVM, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as spark_functions

_IS_CHECK: ContextVar[bool] = ContextVar("flinkpy-spark-is-check", default=False)


@contextmanager
def only_checked() -> Iterator[None]:
    """Returns a context in which F and Window return ANYTHING."""
    token = _IS_CHECK.set(True)
    try:
        yield
    finally:
        _IS_CHECK.reset(token)


class Anything:
    """Stands for a column, a DataFrame or a session. Every operation returns the object itself."""

    columns: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Anything:
        return self

    def _itself(self, *arguments: Any, **named: Any) -> Any:
        return self

    __call__ = __getitem__ = __neg__ = __invert__ = _itself
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _itself
    __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _itself
    __and__ = __rand__ = __or__ = __ror__ = _itself
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _itself  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


ANYTHING: Any = Anything()


class _UnlessChecked:
    """The functions of a module or class of PySpark, which return ANYTHING in a check."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            return ANYTHING if _IS_CHECK.get() else function(*arguments, **named)

        self.__dict__[name] = call
        return call


F: Any = _UnlessChecked(spark_functions)
Window: Any = _UnlessChecked(SparkWindow)
