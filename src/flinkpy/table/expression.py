"""Expression: values that a query of the Table API computes from columns. Source: pyflink.table.expression.

Functions are those of SQL: see docs/sql.md.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import Any, Generic, TypeVar

from flinkpy.common.errors import ValidationError
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.expression_nodes import (
    ExpressionNode,
    TableReference,
    TableSymbol,
    TypeLiteral,
    UnresolvedCall,
    UnresolvedReference,
    ValueLiteral,
)
from flinkpy.table.type_conversion import logical_type_of
from flinkpy.table.types import DataType, DataTypes

__all__ = [
    "Expression",
    "JsonExistsOnError",
    "JsonQueryOnEmptyOrError",
    "JsonQueryWrapper",
    "JsonType",
    "JsonValueOnEmptyOrError",
    "TimeIntervalUnit",
    "TimePointUnit",
]

T = TypeVar("T")


class TimeIntervalUnit(Enum):
    """Units of intervals of time."""

    YEAR = (0,)
    YEAR_TO_MONTH = (1,)
    QUARTER = (2,)
    MONTH = (3,)
    WEEK = (4,)
    DAY = (5,)
    DAY_TO_HOUR = (6,)
    DAY_TO_MINUTE = (7,)
    DAY_TO_SECOND = (8,)
    HOUR = (9,)
    SECOND = (10,)
    HOUR_TO_MINUTE = (11,)
    HOUR_TO_SECOND = (12,)
    MINUTE = (13,)
    MINUTE_TO_SECOND = 14


class TimePointUnit(Enum):
    """Units of points in time."""

    YEAR = (0,)
    MONTH = (1,)
    DAY = (2,)
    HOUR = (3,)
    MINUTE = (4,)
    SECOND = (5,)
    QUARTER = (6,)
    WEEK = (7,)
    MILLISECOND = (8,)
    MICROSECOND = 9


class JsonType(Enum):
    """Kinds of JSON documents, for `is_json`."""

    VALUE = (0,)
    SCALAR = (1,)
    ARRAY = (2,)
    OBJECT = 3


class JsonExistsOnError(Enum):
    """The result of `json_exists` for an error."""

    TRUE = (0,)
    FALSE = (1,)
    UNKNOWN = (2,)
    ERROR = 3


class JsonValueOnEmptyOrError(Enum):
    """The result of `json_value` where there is no value, or an error."""

    NULL = (0,)
    ERROR = (1,)
    DEFAULT = 2


class JsonQueryWrapper(Enum):
    """When `json_query` puts its result into an array."""

    WITHOUT_ARRAY = (0,)
    CONDITIONAL_ARRAY = (1,)
    UNCONDITIONAL_ARRAY = 2


class JsonQueryOnEmptyOrError(Enum):
    """The result of `json_query` where there is no value, or an error."""

    NULL = (0,)
    EMPTY_ARRAY = (1,)
    EMPTY_OBJECT = (2,)
    ERROR = 3


class JsonOnNull(Enum):
    """The treatment of null values by JSON constructors."""

    NULL = (0,)
    ABSENT = 1


_STRING = DataTypes.STRING()


class CallProperty(property):
    """A property that calls a function with the expression.

    Args:
        function: Flink's name of the function.
        description: the documentation.
    """

    def __init__(self, function: str, description: str) -> None:
        super().__init__(lambda expression: expression._call(function), doc=description)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return super().__get__(instance, owner)


class IntervalProperty(property):
    """A property that makes an interval of a number.

    Args:
        name: the unit.
        size: the milliseconds or months of the unit.
        is_months: True for months.
    """

    def __init__(self, name: str, size: int, is_months: bool = False) -> None:
        super().__init__(lambda expression: _interval(expression, size, is_months), doc=f"An interval of {name}.")

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return super().__get__(instance, owner)


class Expression(Generic[T]):
    """A column, a constant, or a function of other expressions.

    The operators of Python make comparisons, conditions (`&`, `|`, `~`) and arithmetic; other operands become
    constants. Expressions are immutable.

    Args:
        node: the node of the expression, or the name of a column.

    Example:
        >>> table.filter(col("price") > 10).select(col("name").upper_case, (col("price") * 2).alias("double"))
    """

    def __init__(self, node: ExpressionNode | str) -> None:
        self.node: ExpressionNode = UnresolvedReference(node) if isinstance(node, str) else node

    def _call(self, function: str, *arguments: Any) -> Expression[Any]:
        """Returns a call with this expression as first argument. Arguments that are None are left out."""
        given = (node_of(each) for each in arguments if each is not None)
        return Expression(UnresolvedCall(function, (self.node, *given)))

    def _reversed(self, function: str, other: Any) -> Expression[Any]:
        return Expression(UnresolvedCall(function, (node_of(other), self.node)))

    def __str__(self) -> str:
        return str(self.node)

    def __repr__(self) -> str:
        return f"Expression<{self.node}>"

    def __bool__(self) -> bool:
        raise ValidationError(
            f"The expression {self.node} has no value before its query runs. Use & | ~ instead of 'and', 'or' and "
            "'not', and between() instead of a chained comparison."
        )

    def __iter__(self) -> Any:
        raise TypeError("'Expression' object is not iterable")

    __hash__ = object.__hash__

    # -- operators ---------------------------------------------------------------------------------------------------

    def __abs__(self) -> Expression[Any]:
        return self._call("abs")

    def __eq__(self, other: Any) -> Expression[bool]:  # type: ignore[override]
        return self._call("equals", constant(other))

    def __ne__(self, other: Any) -> Expression[bool]:  # type: ignore[override]
        return self._call("notEquals", constant(other))

    def __lt__(self, other: Any) -> Expression[bool]:
        return self._call("lessThan", constant(other))

    def __gt__(self, other: Any) -> Expression[bool]:
        return self._call("greaterThan", constant(other))

    def __le__(self, other: Any) -> Expression[bool]:
        return self._call("lessThanOrEqual", constant(other))

    def __ge__(self, other: Any) -> Expression[bool]:
        return self._call("greaterThanOrEqual", constant(other))

    def __and__(self, other: Any) -> Expression[bool]:
        return self._call("and", constant(other))

    def __or__(self, other: Any) -> Expression[bool]:
        return self._call("or", constant(other))

    def __rand__(self, other: Any) -> Expression[bool]:
        return self._call("and", constant(other))

    def __ror__(self, other: Any) -> Expression[bool]:
        return self._call("or", constant(other))

    def __invert__(self) -> Expression[bool]:
        return self._call("isNotTrue")

    def __add__(self, other: Any) -> Expression[Any]:
        return self._call("plus", constant(other))

    def __sub__(self, other: Any) -> Expression[Any]:
        return self._call("minus", constant(other))

    def __mul__(self, other: Any) -> Expression[Any]:
        return self._call("times", constant(other))

    def __truediv__(self, other: Any) -> Expression[Any]:
        return self._call("divide", constant(other))

    def __mod__(self, other: Any) -> Expression[Any]:
        return self._call("mod", constant(other))

    def __pow__(self, other: Any) -> Expression[Any]:
        return self._call("power", constant(other))

    def __neg__(self) -> Expression[Any]:
        return self._call("minusPrefix")

    def __radd__(self, other: Any) -> Expression[Any]:
        return self._reversed("plus", other)

    def __rsub__(self, other: Any) -> Expression[Any]:
        return self._reversed("minus", other)

    def __rmul__(self, other: Any) -> Expression[Any]:
        return self._call("times", constant(other))

    def __rtruediv__(self, other: Any) -> Expression[Any]:
        return self._reversed("divide", other)

    def __rmod__(self, other: Any) -> Expression[Any]:
        return self._reversed("mod", other)

    def __rpow__(self, other: Any) -> Expression[Any]:
        return self._reversed("power", other)

    def __getitem__(self, index: Any) -> Expression[Any]:
        return self.at(index)

    # -- numbers -----------------------------------------------------------------------------------------------------

    exp = CallProperty("exp", "Euler's number raised to this power.")
    log10 = CallProperty("log10", "The logarithm to base 10.")
    log2 = CallProperty("log2", "The logarithm to base 2.")
    ln = CallProperty("ln", "The natural logarithm.")
    cosh = CallProperty("cosh", "The hyperbolic cosine.")
    sinh = CallProperty("sinh", "The hyperbolic sine.")
    sin = CallProperty("sin", "The sine.")
    cos = CallProperty("cos", "The cosine.")
    tan = CallProperty("tan", "The tangent.")
    cot = CallProperty("cot", "The cotangent.")
    asin = CallProperty("asin", "The arc sine.")
    acos = CallProperty("acos", "The arc cosine.")
    atan = CallProperty("atan", "The arc tangent.")
    tanh = CallProperty("tanh", "The hyperbolic tangent.")
    degrees = CallProperty("degrees", "The angle in degrees of one in radians.")
    radians = CallProperty("radians", "The angle in radians of one in degrees.")
    sqrt = CallProperty("sqrt", "The square root.")
    abs = CallProperty("abs", "The value without its sign.")
    sign = CallProperty("sign", "-1, 0 or 1.")
    bin = CallProperty("bin", "The binary digits of an integer.")
    hex = CallProperty("hex", "The hexadecimal digits of an integer, or of the bytes of a text.")
    unhex = CallProperty("UNHEX", "The bytes of hexadecimal digits.")

    def log(self, base: Any = None) -> Expression[float]:
        """Returns the logarithm to a base; the natural one without a base."""
        return self._call("log") if base is None else Expression(_call("log", base, self))

    def round(self, places: Any) -> Expression[Any]:
        """Returns the number rounded to a number of decimal places."""
        return self._call("round", places)

    def truncate(self, n: Any = 0) -> Expression[Any]:
        """Returns the number cut off after `n` decimal places."""
        return self._call("truncate", n)

    # -- conditions --------------------------------------------------------------------------------------------------

    is_null = CallProperty("isNull", "True for null.")
    is_not_null = CallProperty("isNotNull", "True for anything but null.")
    is_true = CallProperty("isTrue", "True for TRUE, and false for null.")
    is_false = CallProperty("isFalse", "True for FALSE, and false for null.")
    is_not_true = CallProperty("isNotTrue", "True for FALSE and null.")
    is_not_false = CallProperty("isNotFalse", "True for TRUE and null.")

    def between(self, lower_bound: Any, upper_bound: Any) -> Expression[bool]:
        """True if the value lies between two others or is equal to one of them."""
        return self._call("between", constant(lower_bound), constant(upper_bound))

    def not_between(self, lower_bound: Any, upper_bound: Any) -> Expression[bool]:
        """True if the value lies outside of two others."""
        return self._call("notBetween", constant(lower_bound), constant(upper_bound))

    def then(self, if_true: Any, if_false: Any) -> Expression[Any]:
        """Returns one of two values for a condition."""
        return self._call("ifThenElse", constant(if_true), constant(if_false))

    def if_null(self, null_replacement: Any) -> Expression[Any]:
        """Returns the value, or another one where it is null."""
        return self._call("ifNull", constant(null_replacement))

    def in_(self, first_element_or_table: Any, *remaining_elements: Any) -> Expression[bool]:
        """True if the value is one of the given ones, or in the only column of a table."""
        from flinkpy.table.table import Table

        first = first_element_or_table
        if isinstance(first, Table):
            if remaining_elements:
                raise ValidationError("in_ takes one table, or any number of values.")
            return Expression(UnresolvedCall("in", (self.node, TableReference(first.operation))))
        return self._call("in", constant(first), *map(constant, remaining_elements))

    # -- aggregates --------------------------------------------------------------------------------------------------

    distinct = CallProperty("distinct", "The aggregate over distinct values.")
    sum = CallProperty("sum", "The sum; null if there are no values but null.")
    sum0 = CallProperty("sum0", "The sum; 0 if there are no values but null.")
    min = CallProperty("min", "The smallest value.")
    max = CallProperty("max", "The largest value.")
    count = CallProperty("count", "The number of rows in which the value is not null.")
    avg = CallProperty("avg", "The arithmetic mean.")
    first_value = CallProperty("first_value", "The first value that is not null.")
    last_value = CallProperty("last_value", "The last value that is not null.")
    stddev_pop = CallProperty("stddevPop", "The standard deviation of a population.")
    stddev_samp = CallProperty("stddevSamp", "The standard deviation of a sample.")
    var_pop = CallProperty("varPop", "The variance of a population.")
    var_samp = CallProperty("varSamp", "The variance of a sample.")
    collect = CallProperty("collect", "The values as a MULTISET.")
    array_agg = CallProperty("ARRAY_AGG", "The values as an ARRAY, with nulls.")

    def list_agg(self, separator: Any = None) -> Expression[str]:
        """Returns the texts of all rows, one after the other, with a separator, by default a comma, between them."""
        return self._call("listAgg", "," if separator is None else separator)

    def percentile(self, percentage: Any, frequency: Any = None) -> Expression[Any]:
        """Returns the value below which a part of the values lies; an array for an array of parts."""
        return self._call("PERCENTILE", percentage, frequency)

    def over(self, alias: Any) -> Expression[Any]:
        """Returns the aggregate over the rows of an OVER window."""
        return self._call("over", str(alias) if isinstance(alias, Expression) else alias)

    def bitmap_and_agg(self) -> Expression[Any]:
        """Returns the intersection of all bitmaps."""
        return self._call("BITMAP_AND_AGG")

    def bitmap_and_cardinality_agg(self) -> Expression[Any]:
        """Returns the number of values in the intersection of all bitmaps."""
        return self._call("BITMAP_AND_CARDINALITY_AGG")

    def bitmap_build_agg(self) -> Expression[Any]:
        """Returns the bitmap of all integers."""
        return self._call("BITMAP_BUILD_AGG")

    def bitmap_build_cardinality_agg(self) -> Expression[Any]:
        """Returns the number of distinct integers."""
        return self._call("BITMAP_BUILD_CARDINALITY_AGG")

    def bitmap_or_agg(self) -> Expression[Any]:
        """Returns the union of all bitmaps."""
        return self._call("BITMAP_OR_AGG")

    def bitmap_or_cardinality_agg(self) -> Expression[Any]:
        """Returns the number of values in the union of all bitmaps."""
        return self._call("BITMAP_OR_CARDINALITY_AGG")

    def bitmap_xor_agg(self) -> Expression[Any]:
        """Returns the symmetric difference of all bitmaps."""
        return self._call("BITMAP_XOR_AGG")

    def bitmap_xor_cardinality_agg(self) -> Expression[Any]:
        """Returns the number of values in the symmetric difference of all bitmaps."""
        return self._call("BITMAP_XOR_CARDINALITY_AGG")

    # -- names, types and order --------------------------------------------------------------------------------------

    asc = CallProperty("asc", "The ascending order of these values.")
    desc = CallProperty("desc", "The descending order of these values.")
    start = CallProperty("start", "The inclusive start of a group window, of its alias.")
    end = CallProperty("end", "The exclusive end of a group window, of its alias.")
    rowtime = CallProperty("rowtime", "The event time attribute of a group window, of its alias.")
    proctime = CallProperty("proctime", "The processing time attribute of a group window, of its alias.")

    def alias(self, name: str, *extra_names: str) -> Expression[T]:
        """Returns the expression with a name; with several names if it has several columns."""
        return self._call("as", name, *extra_names)

    def as_argument(self, name: str) -> Expression[Any]:
        """Returns the expression as the argument of a function that has this name."""
        return Expression(UnresolvedCall("ASSIGNMENT", (ValueLiteral(name), self.node)))

    def cast(self, data_type: DataType) -> Expression[Any]:
        """Returns the value as another type. A value that cannot be converted fails the job."""
        return self._cast("cast", data_type)

    def try_cast(self, data_type: DataType) -> Expression[Any]:
        """Returns the value as another type, and null if it cannot be converted."""
        return self._cast("TRY_CAST", data_type)

    def _cast(self, function: str, data_type: DataType) -> Expression[Any]:
        return Expression(UnresolvedCall(function, (self.node, TypeLiteral(logical_type_of(data_type)))))

    # -- texts -------------------------------------------------------------------------------------------------------

    char_length = CallProperty("charLength", "The number of characters.")
    upper_case = CallProperty("upper", "The text in capitals.")
    lower_case = CallProperty("lower", "The text in small letters.")
    init_cap = CallProperty("initCap", "The text with the first letter of each word in capitals.")
    from_base64 = CallProperty("fromBase64", "The text that Base64 encodes.")
    to_base64 = CallProperty("toBase64", "The text in Base64.")
    ascii = CallProperty("ascii", "The number of the first character.")
    chr = CallProperty("chr", "The character of a number.")
    reverse = CallProperty("reverse", "The text from its end to its beginning.")
    md5 = CallProperty("md5", "The MD5 hash in hexadecimal digits.")
    sha1 = CallProperty("sha1", "The SHA-1 hash in hexadecimal digits.")
    sha224 = CallProperty("sha224", "The SHA-224 hash in hexadecimal digits.")
    sha256 = CallProperty("sha256", "The SHA-256 hash in hexadecimal digits.")
    sha384 = CallProperty("sha384", "The SHA-384 hash in hexadecimal digits.")
    sha512 = CallProperty("sha512", "The SHA-512 hash in hexadecimal digits.")

    def concat(self, other: Any) -> Expression[str]:
        """Returns this text and another one behind it."""
        return self._call("concat", other)

    def sha2(self, hash_length: Any) -> Expression[str]:
        """Returns the SHA-2 hash of 224, 256, 384 or 512 bits."""
        return self._call("sha2", hash_length)

    def starts_with(self, start_expr: Any) -> Expression[bool]:
        """True if the text or the bytes begin with others."""
        return self._call("STARTSWITH", start_expr)

    def ends_with(self, end_expr: Any) -> Expression[bool]:
        """True if the text or the bytes end with others."""
        return self._call("ENDSWITH", end_expr)

    def substring(self, begin_index: Any, length: Any = None) -> Expression[str]:
        """Returns the part that begins at an index, from 1, to the end or with a length."""
        return self._call("substring", begin_index, length)

    def substr(self, begin_index: Any, length: Any = None) -> Expression[str]:
        """Returns the part that begins at an index, from 1, to the end or with a length."""
        return self._call("substr", begin_index, length)

    def trim_leading(self, character: Any = None) -> Expression[str]:
        """Returns the text without a character, by default a blank, at its beginning."""
        return self._trim(character, leading=True, trailing=False)

    def trim_trailing(self, character: Any = None) -> Expression[str]:
        """Returns the text without a character, by default a blank, at its end."""
        return self._trim(character, leading=False, trailing=True)

    def trim(self, character: Any = None) -> Expression[str]:
        """Returns the text without a character, by default a blank, at both ends."""
        return self._trim(character, leading=True, trailing=True)

    def _trim(self, character: Any, *, leading: bool, trailing: bool) -> Expression[str]:
        return Expression(_call("trim", leading, trailing, " " if character is None else character, self))

    def replace(self, search: Any = None, replacement: Any = None) -> Expression[str]:
        """Returns the text with each occurrence of another one replaced."""
        return self._call("replace", search, replacement)

    def translate(self, from_str: Any, to_str: Any) -> Expression[Any]:
        """Returns the text with the characters of one text replaced by those of another."""
        return self._call("TRANSLATE", constant(from_str), constant(to_str))

    def like(self, pattern: Any = None, escape: Any = None) -> Expression[bool]:
        """True if the text matches a pattern, in which `%` is any text and `_` any character."""
        return self._call("LIKE", pattern, escape)

    def similar(self, pattern: Any = None) -> Expression[bool]:
        """True if the text matches a regular expression of SQL."""
        return self._call("similar", pattern)

    def position(self, haystack: Any = None) -> Expression[int]:
        """Returns the place of this text in another one, from 1; 0 if it is not there."""
        return self._call("position", haystack)

    def lpad(self, length: Any, pad: Any) -> Expression[str]:
        """Returns the text with others before it, up to a length."""
        return self._call("lpad", length, pad)

    def rpad(self, length: Any, pad: Any) -> Expression[str]:
        """Returns the text with others behind it, up to a length."""
        return self._call("rpad", length, pad)

    def overlay(self, new_string: Any, starting: Any, length: Any = None) -> Expression[str]:
        """Returns the text with a part, which begins at a place from 1, replaced by another text."""
        return self._call("overlay", new_string, starting, length)

    def regexp(self, regex: Any) -> Expression[str]:
        """True if a part of the text matches a regular expression of Java."""
        return self._call("regexp", regex)

    def regexp_count(self, regex: Any) -> Expression[Any]:
        """Returns how often a regular expression matches."""
        return self._call("REGEXP_COUNT", constant(regex))

    def regexp_replace(self, regex: Any, replacement: Any) -> Expression[str]:
        """Returns the text with all matches of a regular expression replaced."""
        return self._call("regexpReplace", regex, replacement)

    def regexp_extract(self, regex: Any, extract_index: Any = None) -> Expression[str]:
        """Returns the first match of a regular expression, or of one of its groups."""
        return self._call("regexpExtract", regex, extract_index)

    def regexp_extract_all(self, regex: Any, extract_index: Any = None) -> Expression[Any]:
        """Returns all matches of a regular expression, or of one of its groups."""
        return self._call("REGEXP_EXTRACT_ALL", regex, extract_index)

    def regexp_instr(self, regex: Any) -> Expression[Any]:
        """Returns the place of the first match, from 1; 0 if there is none."""
        return self._call("REGEXP_INSTR", constant(regex))

    def regexp_substr(self, regex: Any) -> Expression[Any]:
        """Returns the first match."""
        return self._call("REGEXP_SUBSTR", constant(regex))

    def decode(self, charset: Any) -> Expression[str]:
        """Returns the text of bytes in a character set."""
        return self._call("decode", charset)

    def encode(self, charset: Any) -> Expression[bytes]:
        """Returns the bytes of a text in a character set."""
        return self._call("encode", charset)

    def left(self, length: Any) -> Expression[str]:
        """Returns the first characters."""
        return self._call("left", length)

    def right(self, length: Any) -> Expression[str]:
        """Returns the last characters."""
        return self._call("right", length)

    def instr(self, s: Any) -> Expression[int]:
        """Returns the place of another text in this one, from 1; 0 if it is not there."""
        return self._call("instr", s)

    def locate(self, s: Any, pos: Any = None) -> Expression[int]:
        """Returns the place of this text in another one, from a place on; 0 if it is not there."""
        return self._call("locate", s, pos)

    def url_decode(self) -> Expression[str]:
        """Returns the text of a part of a URL."""
        return self._call("urlDecode")

    def url_encode(self) -> Expression[str]:
        """Returns the text as a part of a URL."""
        return self._call("urlEncode")

    def inet_aton(self) -> Expression[Any]:
        """Returns the number of an IPv4 address."""
        return self._call("INET_ATON")

    def inet_ntoa(self) -> Expression[str]:
        """Returns the IPv4 address of a number."""
        return self._call("INET_NTOA")

    def parse_url(self, part_to_extract: Any, key: Any = None) -> Expression[str]:
        """Returns a part of a URL, such as HOST, or the value of a key of its QUERY."""
        return self._call("parseUrl", part_to_extract, key)

    def printf(self, *obj: Any) -> Expression[Any]:
        """Returns the format with values in it, as Java's `String.format`."""
        return self._call("PRINTF", *map(constant, obj))

    def ltrim(self, trim_str: Any = None) -> Expression[str]:
        """Returns the text without blanks, or characters of another text, at its beginning."""
        return self._call("ltrim", trim_str)

    def rtrim(self, trim_str: Any = None) -> Expression[str]:
        """Returns the text without blanks, or characters of another text, at its end."""
        return self._call("rtrim", trim_str)

    def btrim(self, trim_str: Any = None) -> Expression[Any]:
        """Returns the text without blanks, or characters of another text, at both ends."""
        return self._call("BTRIM", trim_str)

    def repeat(self, n: Any) -> Expression[str]:
        """Returns the text several times."""
        return self._call("repeat", n)

    def split_index(self, separator: Any, index: Any) -> Expression[str]:
        """Returns the part at an index, from 0, between separators."""
        return self._call("splitIndex", separator, index)

    def str_to_map(self, list_delimiter: Any = None, key_value_delimiter: Any = None) -> Expression[dict[str, str]]:
        """Returns the map that a text such as `a=1,b=2` describes."""
        return self._call("strToMap", list_delimiter, key_value_delimiter)

    def elt(self, expr: Any, *exprs: Any) -> Expression[Any]:
        """Returns the argument whose number, from 1, this expression is."""
        return self._call("ELT", constant(expr), *map(constant, exprs))

    def split(self, delimiter: Any) -> Expression[Any]:
        """Returns the parts between delimiters as an array."""
        return self._call("SPLIT", delimiter)

    # -- times -------------------------------------------------------------------------------------------------------

    @property
    def to_date(self) -> Expression[Any]:
        """The date that a text such as `2020-01-31` describes."""
        return self.cast(DataTypes.DATE())

    @property
    def to_time(self) -> Expression[Any]:
        """The time of day that a text such as `12:30:00` describes."""
        return self.cast(DataTypes.TIME())

    @property
    def to_timestamp(self) -> Expression[Any]:
        """The timestamp that a text such as `2020-01-31 12:30:00` describes."""
        return self.cast(DataTypes.TIMESTAMP(3))

    def extract(self, time_interval_unit: TimeIntervalUnit) -> Expression[Any]:
        """Returns a part of a point in time or of an interval, as a number."""
        return Expression(UnresolvedCall("extract", (TableSymbol(time_interval_unit.name), self.node)))

    def floor(self, time_interval_unit: TimeIntervalUnit | None = None) -> Expression[Any]:
        """Returns the largest integer that is not greater; of a time the beginning of its unit."""
        return self._call("floor", _symbol(time_interval_unit))

    def ceil(self, time_interval_unit: TimeIntervalUnit | None = None) -> Expression[Any]:
        """Returns the smallest integer that is not less; of a time the end of its unit."""
        return self._call("ceil", _symbol(time_interval_unit))

    year = IntervalProperty("years", 12, True)
    years = IntervalProperty("years", 12, True)
    quarter = IntervalProperty("quarters", 3, True)
    quarters = IntervalProperty("quarters", 3, True)
    month = IntervalProperty("months", 1, True)
    months = IntervalProperty("months", 1, True)
    week = IntervalProperty("weeks", 7 * 86_400_000)
    weeks = IntervalProperty("weeks", 7 * 86_400_000)
    day = IntervalProperty("days", 86_400_000)
    days = IntervalProperty("days", 86_400_000)
    hour = IntervalProperty("hours", 3_600_000)
    hours = IntervalProperty("hours", 3_600_000)
    minute = IntervalProperty("minutes", 60_000)
    minutes = IntervalProperty("minutes", 60_000)
    second = IntervalProperty("seconds", 1000)
    seconds = IntervalProperty("seconds", 1000)
    milli = IntervalProperty("milliseconds", 1)
    millis = IntervalProperty("milliseconds", 1)

    # -- rows and collections ----------------------------------------------------------------------------------------

    flatten = CallProperty("flatten", "The fields of a row as columns.")
    cardinality = CallProperty("cardinality", "The number of elements.")
    element = CallProperty("element", "The only element of an array; null for an empty one.")
    map_keys = CallProperty("MAP_KEYS", "The keys of a map as an array.")
    map_values = CallProperty("MAP_VALUES", "The values of a map as an array.")
    map_entries = CallProperty("MAP_ENTRIES", "The entries of a map as an array of rows.")

    def get(self, name_or_index: str | int) -> Expression[Any]:
        """Returns a field of a row, by its name or its index from 0."""
        return self._call("get", name_or_index)

    def at(self, index: Any) -> Expression[Any]:
        """Returns the element of an array at an index from 1, or the value of a key of a map."""
        return self._call("at", constant(index))

    def array_append(self, addition: Any) -> Expression[Any]:
        """Returns the array with an element behind it."""
        return self._call("ARRAY_APPEND", constant(addition))

    def array_contains(self, needle: Any) -> Expression[Any]:
        """True if the array has an element."""
        return self._call("ARRAY_CONTAINS", constant(needle))

    def array_distinct(self) -> Expression[Any]:
        """Returns the array with each element once."""
        return self._call("ARRAY_DISTINCT")

    def array_position(self, needle: Any) -> Expression[Any]:
        """Returns the place of an element, from 1; 0 if it is not there."""
        return self._call("ARRAY_POSITION", constant(needle))

    def array_prepend(self, addition: Any) -> Expression[Any]:
        """Returns the array with an element before it."""
        return self._call("ARRAY_PREPEND", constant(addition))

    def array_remove(self, needle: Any) -> Expression[Any]:
        """Returns the array without an element."""
        return self._call("ARRAY_REMOVE", constant(needle))

    def array_reverse(self) -> Expression[Any]:
        """Returns the array from its end to its beginning."""
        return self._call("ARRAY_REVERSE")

    def array_slice(self, start_offset: Any, end_offset: Any = None) -> Expression[Any]:
        """Returns the elements from one place to another, from 1."""
        return self._call("ARRAY_SLICE", start_offset, end_offset)

    def array_sort(self, ascending_order: Any = None, null_first: Any = None) -> Expression[Any]:
        """Returns the array in order."""
        if ascending_order is None and null_first is not None:
            raise ValidationError("array_sort with null_first needs ascending_order.")
        return self._call("ARRAY_SORT", ascending_order, null_first)

    def array_union(self, array: Any) -> Expression[Any]:
        """Returns the distinct elements of two arrays."""
        return self._call("ARRAY_UNION", constant(array))

    def array_concat(self, *arrays: Any) -> Expression[Any]:
        """Returns this array and others behind it."""
        return self._call("ARRAY_CONCAT", *map(constant, arrays))

    def array_max(self) -> Expression[Any]:
        """Returns the largest element."""
        return self._call("ARRAY_MAX")

    def array_join(self, delimiter: Any, null_replacement: Any = None) -> Expression[Any]:
        """Returns the elements as one text."""
        return self._call("ARRAY_JOIN", delimiter, null_replacement)

    def array_min(self) -> Expression[Any]:
        """Returns the smallest element."""
        return self._call("ARRAY_MIN")

    def array_except(self, array: Any) -> Expression[Any]:
        """Returns the elements that another array does not have."""
        return self._call("ARRAY_EXCEPT", constant(array))

    def array_intersect(self, array: Any) -> Expression[Any]:
        """Returns the distinct elements that another array has, too."""
        return self._call("ARRAY_INTERSECT", constant(array))

    def map_union(self, *maps: Any) -> Expression[Any]:
        """Returns the entries of several maps; those of later ones win."""
        return self._call("MAP_UNION", *map(constant, maps))

    def object_update(self, *kv: Any) -> Expression[Any]:
        """Returns a structured value with some of its fields replaced."""
        return self._call("OBJECT_UPDATE", *map(constant, kv))

    # -- JSON --------------------------------------------------------------------------------------------------------

    def is_json(self, json_type: JsonType | None = None) -> Expression[bool]:
        """True if the text is JSON, of a kind."""
        return self._call("IS_JSON", _symbol(json_type))

    def json_exists(self, path: str, on_error: JsonExistsOnError | None = None) -> Expression[bool]:
        """True if a JSON document has something at a path."""
        return self._call("JSON_EXISTS", path, _symbol(on_error))

    def json_value(
        self,
        path: str,
        returning_type: DataType = _STRING,
        on_empty: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_empty: Any = None,
        on_error: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_error: Any = None,
    ) -> Expression[Any]:
        """Returns the scalar value of a JSON document at a path."""
        return self._call(
            "JSON_VALUE",
            path,
            Expression(TypeLiteral(logical_type_of(returning_type))),
            _symbol(on_empty),
            constant(default_on_empty),
            _symbol(on_error),
            constant(default_on_error),
        )

    def json_query(
        self,
        path: str,
        wrapping_behavior: JsonQueryWrapper = JsonQueryWrapper.WITHOUT_ARRAY,
        on_empty: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
        on_error: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
    ) -> Expression[Any]:
        """Returns the part of a JSON document at a path, as JSON."""
        returning: Expression[Any] = Expression(TypeLiteral(lt.VarCharType()))
        return self._call("JSON_QUERY", path, returning, *map(_symbol, (wrapping_behavior, on_empty, on_error)))

    def json_quote(self) -> Expression[Any]:
        """Returns the text as a JSON string."""
        return self._call("JSON_QUOTE")

    def json_unquote(self) -> Expression[Any]:
        """Returns the text of a JSON string."""
        return self._call("JSON_UNQUOTE")

    # -- bitmaps -----------------------------------------------------------------------------------------------------

    def bitmap_and(self, bitmap2: Any) -> Expression[Any]:
        """Returns the values that are in both bitmaps."""
        return self._call("BITMAP_AND", bitmap2)

    def bitmap_andnot(self, bitmap2: Any) -> Expression[Any]:
        """Returns the values that are not in another bitmap."""
        return self._call("BITMAP_ANDNOT", bitmap2)

    def bitmap_build(self) -> Expression[Any]:
        """Returns the bitmap of an array of integers."""
        return self._call("BITMAP_BUILD")

    def bitmap_cardinality(self) -> Expression[Any]:
        """Returns the number of values of a bitmap."""
        return self._call("BITMAP_CARDINALITY")

    def bitmap_from_bytes(self) -> Expression[Any]:
        """Returns the bitmap that bytes describe."""
        return self._call("BITMAP_FROM_BYTES")

    def bitmap_or(self, bitmap2: Any) -> Expression[Any]:
        """Returns the values that are in either bitmap."""
        return self._call("BITMAP_OR", bitmap2)

    def bitmap_to_array(self) -> Expression[Any]:
        """Returns the values of a bitmap as an array."""
        return self._call("BITMAP_TO_ARRAY")

    def bitmap_to_bytes(self) -> Expression[Any]:
        """Returns the bytes that describe a bitmap."""
        return self._call("BITMAP_TO_BYTES")

    def bitmap_to_string(self) -> Expression[Any]:
        """Returns the values of a bitmap as a text."""
        return self._call("BITMAP_TO_STRING")

    def bitmap_xor(self, bitmap2: Any) -> Expression[Any]:
        """Returns the values that are in one of two bitmaps only."""
        return self._call("BITMAP_XOR", bitmap2)


def node_of(value: Any) -> ExpressionNode:
    """Returns the node of an expression; a constant of any other value."""
    if isinstance(value, Expression):
        return value.node
    if isinstance(value, ExpressionNode):
        return value
    if isinstance(value, (list, tuple)):
        return _call("array", *value)
    if isinstance(value, dict):
        return _call("map", *(each for pair in value.items() for each in pair))
    if isinstance(value, timedelta):
        return ValueLiteral(value // timedelta(milliseconds=1), _DAY_TIME)
    return ValueLiteral(value)


def constant(value: Any) -> Expression[Any]:
    """Returns an expression as it is, and a constant of any other value, of None, too."""
    return value if isinstance(value, Expression) else Expression(node_of(value))


def _call(function: str, *arguments: Any) -> UnresolvedCall:
    return UnresolvedCall(function, tuple(map(node_of, arguments)))


def _symbol(member: Enum | None) -> Expression[Any] | None:
    return None if member is None else Expression(TableSymbol(member.name))


#: The types of intervals of the Table API.
_DAY_TIME = lt.DayTimeIntervalType("DAY_TO_SECOND", 6, 3, nullable=False)
_YEAR_MONTH = lt.YearMonthIntervalType("YEAR_TO_MONTH", 4, nullable=False)


def _interval(expression: Expression[Any], size: int, is_months: bool) -> Expression[Any]:
    """Returns an interval of a number of units.

    Args:
        size: the milliseconds or months of a unit.
    """
    kind = _YEAR_MONTH if is_months else _DAY_TIME
    node = expression.node
    if isinstance(node, ValueLiteral) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return Expression(ValueLiteral(node.value * size, kind))
    return Expression(UnresolvedCall("times", (UnresolvedCall("cast", (node, TypeLiteral(kind))), ValueLiteral(size))))
