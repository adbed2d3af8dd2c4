"""Pattern: a sequence of variables with quantifiers, as plain immutable data.

Source: org.apache.flink.cep.pattern.{Pattern,Quantifier}, org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flinkpy.common.errors import ValidationError


class Contiguity(Enum):
    """How a variable's rows follow those before them.

    Source: org.apache.flink.cep.pattern.Quantifier.ConsumingStrategy.
    """

    #: Directly: the row after the last matched one must match.
    STRICT = "STRICT"
    #: Rows that do not match are skipped.
    SKIP_TILL_NEXT = "SKIP_TILL_NEXT"
    #: Rows are skipped whether they match or not.
    SKIP_TILL_ANY = "SKIP_TILL_ANY"
    #: The row after the last matched one must not match.
    NOT_NEXT = "NOT_NEXT"
    #: No row matches before a row of the next variable does.
    NOT_FOLLOW = "NOT_FOLLOW"


@dataclass(frozen=True, slots=True)
class Quantifier:
    """How often a variable is matched.

    Attributes:
        minimum: the fewest rows if there are any; at least 1.
        maximum: the most rows; None for any number.
        is_optional: True if it may have no row.
        is_greedy: True if rows belong to this variable as long as they match. Then the next variable does not get a row
            that this one could take.
        inner: how the rows of the variable follow one another.
    """

    minimum: int = 1
    maximum: int | None = 1
    is_optional: bool = False
    is_greedy: bool = False
    inner: Contiguity = Contiguity.STRICT

    def __post_init__(self) -> None:
        if self.minimum < 1:
            raise ValidationError("The times should be a positive number greater than 0.")
        if self.maximum is not None and self.maximum < self.minimum:
            raise ValidationError(
                f"The to should be a number greater than or equal to from: {self.maximum} is less than {self.minimum}."
            )

    @property
    def is_looping(self) -> bool:
        return self.maximum is None

    @staticmethod
    def between(minimum: int, maximum: int | None, *, is_greedy: bool = True) -> Quantifier:
        """Returns the quantifier of `{minimum,maximum}`; from 0 times on, the variable is optional.

        Greediness means nothing where the number of rows is fixed, or where there is at most one.
        """
        has_choice = maximum is None or maximum != minimum
        is_greedy = is_greedy and has_choice and (minimum, maximum) != (0, 1)
        return Quantifier(max(minimum, 1), maximum, minimum == 0, is_greedy)


ONCE = Quantifier()


@dataclass(frozen=True, slots=True)
class PatternVariable:
    """A variable with its place in a pattern.

    Attributes:
        contiguity: how its first row follows the variable before it.
    """

    name: str
    quantifier: Quantifier = ONCE
    contiguity: Contiguity = Contiguity.STRICT


class SkipMode(Enum):
    """The place at which the search goes on after a match."""

    #: All matches are found, also several that begin with one row.
    NO_SKIP = "NO_SKIP"
    #: At the row after the first one of the match.
    TO_NEXT = "SKIP TO NEXT ROW"
    #: At the row after the last one of the match.
    PAST_LAST = "SKIP PAST LAST ROW"
    #: At the first or last row of a variable.
    TO_FIRST = "SKIP TO FIRST"
    TO_LAST = "SKIP TO LAST"


@dataclass(frozen=True, slots=True)
class AfterMatchSkipStrategy:
    """The place at which the search goes on after a match. `variable` is set for TO_FIRST and TO_LAST."""

    mode: SkipMode = SkipMode.NO_SKIP
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """Variables one after the other. Their names are unique.

    Attributes:
        skip: where to go on after a match.
        within_ms: a match's rows lie within this time after its first one; None for any time.
    """

    variables: tuple[PatternVariable, ...]
    skip: AfterMatchSkipStrategy = AfterMatchSkipStrategy()
    within_ms: int | None = None

    def __post_init__(self) -> None:
        names = self.names
        if not names:
            raise ValidationError("A pattern needs at least one variable.")
        if len(set(names)) != len(names):
            raise ValidationError("Pattern variables must be unique. That might change in the future.")
        if self.skip.variable is not None and self.skip.variable not in names:
            raise ValidationError(
                "The pattern name specified in AfterMatchSkipStrategy can not be found in the given Pattern: "
                f"'{self.skip.variable}'."
            )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.variables)
