"""compile_pattern: turns a pattern into a non-deterministic finite automaton.

States are made from the last variable to the first. A TAKE transition consumes the row and leads to the next state, a
PROCEED transition leads to another state that gets the same row. A greedy variable forbids all transitions of the state
behind it for rows that the variable could take, as in Flink: they apply only if its condition is false.

Source: org.apache.flink.cep.nfa.compiler.NFACompiler.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from flinkpy.cep.pattern import Contiguity, Pattern, PatternVariable, SkipMode
from flinkpy.common.errors import UnsupportedOperationError


class TransitionAction(IntEnum):
    TAKE = 0
    PROCEED = 1


@dataclass(slots=True)
class Transition:
    """A transition applies to a row if the condition of `accepts` holds and none of `rejects` does.

    Attributes:
        target: the number of a state.
        accepts: the variable whose condition must hold; None for none.
        rejects: the variables whose conditions must not hold.
    """

    action: TransitionAction
    target: int
    accepts: int | None = None
    rejects: list[int] = field(default_factory=list)


@dataclass(slots=True)
class State:
    """A state. Rows that leave it by TAKE belong to `variable`. The final state, with -1, has no transitions."""

    variable: int
    transitions: list[Transition] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Nfa:
    """An automaton. State 0 is final.

    Attributes:
        start: the state of a match without rows.
    """

    pattern: Pattern
    states: tuple[State, ...]
    start: int

    def can_match_nothing(self) -> bool:
        """True if all variables are optional. Source: NFACompiler.canProduceEmptyMatches."""
        pending, seen = [self.start], set()
        while pending:
            state = pending.pop()
            if state == FINAL:
                return True
            seen.add(state)
            pending += [
                each.target
                for each in self.states[state].transitions
                if each.action is TransitionAction.PROCEED and each.target not in seen
            ]
        return False


FINAL = 0


def compile_pattern(pattern: Pattern) -> Nfa:
    """Returns the automaton.

    Raises: UnsupportedOperationError if variables do not follow one another strictly, or for NO_SKIP.
    """
    if pattern.skip.mode is SkipMode.NO_SKIP:
        raise UnsupportedOperationError("the skip strategy NO_SKIP of a pattern is not supported yet")
    compiler = _Compiler()
    sink = FINAL
    for number, variable in reversed(list(enumerate(pattern.variables))):
        sink = compiler.variable(number, variable, sink)
    return Nfa(pattern, tuple(compiler.states), sink)


class _Compiler:
    def __init__(self) -> None:
        self.states: list[State] = [State(-1)]

    def variable(self, number: int, variable: PatternVariable, sink: int) -> int:
        """Adds the states of a variable and returns the first one. `sink` is the first state behind the variable."""
        quantifier = variable.quantifier
        for each in (variable.contiguity, quantifier.inner):
            if each is not Contiguity.STRICT:
                raise UnsupportedOperationError(
                    f"pattern variable {variable.name}: the contiguity {each.name} is not supported yet"
                )
        if quantifier.maximum is None:
            loop = self._loop(number, sink, is_greedy=quantifier.is_greedy)
            return self._times(number, loop, sink, quantifier.minimum, quantifier.minimum, quantifier.is_optional)
        if quantifier.is_greedy and quantifier.minimum != quantifier.maximum:
            self._forbid(sink, number)
        return self._times(number, sink, sink, quantifier.minimum, quantifier.maximum, quantifier.is_optional)

    def _state(self, variable: int) -> int:
        self.states.append(State(variable))
        return len(self.states) - 1

    def _forbid(self, state: int, variable: int) -> None:
        for each in self.states[state].transitions:
            each.rejects.append(variable)

    def _loop(self, variable: int, sink: int, *, is_greedy: bool) -> int:
        state = self._state(variable)
        transitions = self.states[state].transitions
        transitions.append(Transition(TransitionAction.PROCEED, sink))
        if is_greedy:
            self._forbid(sink, variable)
        transitions.append(Transition(TransitionAction.TAKE, state, variable))
        return state

    def _times(self, variable: int, sink: int, proceed: int, minimum: int, maximum: int, is_optional: bool) -> int:
        """Adds one state per row. Behind the first `minimum` rows each of them may be the last one."""
        for _ in range(minimum, maximum):
            sink = self._single(variable, sink, proceed)
        for _ in range(minimum - 1):
            sink = self._single(variable, sink, None)
        return self._single(variable, sink, proceed if is_optional else None)

    def _single(self, variable: int, sink: int, proceed: int | None) -> int:
        state = self._state(variable)
        transitions = self.states[state].transitions
        transitions.append(Transition(TransitionAction.TAKE, sink, variable))
        if proceed is not None:
            transitions.append(Transition(TransitionAction.PROCEED, proceed))
        return state
