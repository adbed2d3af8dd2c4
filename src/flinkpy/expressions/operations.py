"""Operations: the operators and methods of expressions, with the names of PyFlink's Table API.

Source: pyflink.table.Expression.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import TypeInformation
    from flinkpy.expressions.nodes import Expression


class TimeIntervalUnit(Enum):
    """The parts of dates and times for `extract`. Source: pyflink.table.expression.TimeIntervalUnit."""

    YEAR = "YEAR"
    QUARTER = "QUARTER"
    MONTH = "MONTH"
    WEEK = "WEEK"
    DAY = "DAY"
    HOUR = "HOUR"
    MINUTE = "MINUTE"
    SECOND = "SECOND"


class Operations:
    """A part of Expression. Where other expressions are taken, plain Python values are too."""

    __slots__ = ()

    # -- arithmetic ------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expression:
        return _call("plus", self, other)

    def __radd__(self, other: Any) -> Expression:
        return _call("plus", other, self)

    def __sub__(self, other: Any) -> Expression:
        return _call("minus", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return _call("minus", other, self)

    def __mul__(self, other: Any) -> Expression:
        return _call("times", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return _call("times", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return _call("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _call("divide", other, self)

    def __mod__(self, other: Any) -> Expression:
        return _call("mod", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return _call("mod", other, self)

    def __neg__(self) -> Expression:
        return _call("minusPrefix", self)

    def __pos__(self) -> Expression:
        return self  # type: ignore[return-value]

    @property
    def abs(self) -> Expression:
        """The number without its sign."""
        return _call("abs", self)

    @property
    def floor(self) -> Expression:
        """The largest whole number that is not larger."""
        return _call("floor", self)

    @property
    def ceil(self) -> Expression:
        """The smallest whole number that is not smaller."""
        return _call("ceil", self)

    def round(self, places: int = 0) -> Expression:
        """Rounded to so many digits after the point, a half away from zero."""
        return _call("round", self, options=(places,))

    # -- comparison ------------------------------------------------------------------------------------------------

    def __eq__(self, other: Any) -> Expression:  # type: ignore[override]
        return _call("equals", self, other)

    def __ne__(self, other: Any) -> Expression:  # type: ignore[override]
        return _call("notEquals", self, other)

    def __lt__(self, other: Any) -> Expression:
        return _call("lessThan", self, other)

    def __le__(self, other: Any) -> Expression:
        return _call("lessThanOrEqual", self, other)

    def __gt__(self, other: Any) -> Expression:
        return _call("greaterThan", self, other)

    def __ge__(self, other: Any) -> Expression:
        return _call("greaterThanOrEqual", self, other)

    def between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        """Whether it is not below the one bound and not above the other."""
        return _call("and", _call("greaterThanOrEqual", self, lower_bound), _call("lessThanOrEqual", self, upper_bound))

    def not_between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        """The opposite of `between`."""
        return _call("not", self.between(lower_bound, upper_bound))

    def in_(self, first_element_or_table: Any, *remaining_elements: Any) -> Expression:
        """Whether it is equal to one of the literals. PyFlink takes a Table too, which is not known here."""
        return _call("in", self, first_element_or_table, *remaining_elements)

    # -- logic -----------------------------------------------------------------------------------------------------

    def __and__(self, other: Any) -> Expression:
        return _call("and", self, other)

    def __rand__(self, other: Any) -> Expression:
        return _call("and", other, self)

    def __or__(self, other: Any) -> Expression:
        return _call("or", self, other)

    def __ror__(self, other: Any) -> Expression:
        return _call("or", other, self)

    def __invert__(self) -> Expression:
        return _call("not", self)

    def then(self, if_true: Any, if_false: Any) -> Expression:
        """`if_true` where this is true, and `if_false` where it is false or null."""
        return _call("ifThenElse", self, if_true, if_false)

    def if_null(self, null_replacement: Any) -> Expression:
        """The replacement where this is null."""
        return _call("coalesce", self, null_replacement)

    @property
    def is_null(self) -> Expression:
        return _call("isNull", self)

    @property
    def is_not_null(self) -> Expression:
        return _call("isNotNull", self)

    @property
    def is_true(self) -> Expression:
        """Whether it is true; false where it is null."""
        return _call("isTrue", self)

    @property
    def is_false(self) -> Expression:
        """Whether it is false; false where it is null."""
        return _call("isFalse", self)

    @property
    def is_not_true(self) -> Expression:
        return _call("not", self.is_true)

    @property
    def is_not_false(self) -> Expression:
        return _call("not", self.is_false)

    # -- strings ---------------------------------------------------------------------------------------------------

    def like(self, pattern: str) -> Expression:
        """Whether the string matches: `%` stands for any characters, `_` for one, a backslash takes their meaning."""
        return _call("like", self, options=(pattern,))

    def substring(self, begin_index: int, length: int | None = None) -> Expression:
        """From the character at `begin_index`, which counts from 1, to the end or so many characters."""
        if begin_index < 1 or (length is not None and length < 0):
            raise ValueError(f"substring: characters count from 1, and {begin_index}, {length} is no part of a string")
        return _call("substring", self, options=(begin_index, length))

    substr = substring

    def starts_with(self, start_expr: str) -> Expression:
        return _call("startsWith", self, options=(start_expr,))

    def ends_with(self, end_expr: str) -> Expression:
        return _call("endsWith", self, options=(end_expr,))

    @property
    def upper_case(self) -> Expression:
        return _call("upper", self)

    @property
    def lower_case(self) -> Expression:
        return _call("lower", self)

    @property
    def char_length(self) -> Expression:
        """The number of characters. INT."""
        return _call("charLength", self)

    @property
    def trim(self) -> Expression:
        """Without spaces at both ends. In PyFlink a method with a character to take off."""
        return _call("trim", self)

    # -- times -----------------------------------------------------------------------------------------------------

    def extract(self, time_interval_unit: TimeIntervalUnit | str) -> Expression:
        """A part of a date or time. LONG."""
        unit = getattr(time_interval_unit, "value", time_interval_unit)
        if unit not in TimeIntervalUnit.__members__:
            raise ValueError(f"extract: {unit!r} is none of {', '.join(TimeIntervalUnit.__members__)}")
        return _call("extract", self, options=(unit,))

    # -- order -----------------------------------------------------------------------------------------------------

    @property
    def asc(self) -> Expression:
        """Ascending, to sort by."""
        return _call("orderAsc", self)

    @property
    def desc(self) -> Expression:
        """Descending, to sort by."""
        return _call("orderDesc", self)

    # -- types and names -------------------------------------------------------------------------------------------

    def cast(self, data_type: TypeInformation) -> Expression:
        """The value as one of another type (`Types.LONG()`, ...); what cannot be read as that type is null."""
        return _call("cast", self, options=(data_type,))

    def alias(self, name: str) -> Expression:
        """The name of the column that this becomes."""
        from flinkpy.expressions.nodes import Alias, Expression

        assert isinstance(self, Expression)
        if not isinstance(name, str) or not name:
            raise TypeError(f"alias: a name must be a non-empty string, not {name!r}")
        return Alias(self.expression if isinstance(self, Alias) else self, name)

    # -- not meant -------------------------------------------------------------------------------------------------

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise ValueError(
            f"the expression {self} is no truth value: use & for and, | for or, ~ for not, with parentheses around "
            "comparisons, and between() for a <= x <= b"
        )

    def __repr__(self) -> str:
        return f"<{self}>"


def _call(function: str, *arguments: Any, options: tuple[Any, ...] = ()) -> Expression:
    from flinkpy.expressions.functions import call

    return call(function, *arguments, options=options)
