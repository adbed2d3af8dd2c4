"""StateTransitionManager: decides when a job whose slots or requirements have changed gets another parallelism.

```
  COOLDOWN ----over, no change seen----> IDLING <--too few slots--------+
     |                                     | change                     |
     +----over, a change was seen----> STABILIZING --timeout--> STABILIZED
                                           | all desired slots          | enough slots
                                           +------> TRANSITIONING <-----+
```

  * COOLDOWN keeps a time between two rescales. A change in this time counts from when it was seen.
  * STABILIZING waits for the desired slots, STABILIZED only for a good moment. A good moment is a trigger (a completed
    checkpoint, after which little is repeated), or the end of the maximum delay since the change.
  * TRANSITIONING is final: a manager makes one transition.

Pure: times are passed in.

Source: org.apache.flink.runtime.scheduler.adaptive.DefaultStateTransitionManager.
"""

from __future__ import annotations

import enum
from typing import Protocol


class Phase(enum.Enum):
    COOLDOWN = "Cooldown"
    IDLING = "Idling"
    STABILIZING = "Stabilizing"
    STABILIZED = "Stabilized"
    TRANSITIONING = "Transitioning"


class TransitionContext(Protocol):
    """The state that the manager works for."""

    def has_desired_resources(self) -> bool: ...

    def has_sufficient_resources(self) -> bool: ...

    def transition_to_subsequent_state(self) -> None: ...


class StateTransitionManager:
    """Its methods must be called with times that do not decrease.

    Args:
        cooldown_until_ms: the end of the cooldown; None: there is none.
    """

    def __init__(
        self,
        context: TransitionContext,
        *,
        cooldown_until_ms: int | None,
        stabilization_timeout_ms: int,
        max_trigger_delay_ms: int,
    ) -> None:
        self._context = context
        self._stabilization_timeout_ms = stabilization_timeout_ms
        self._max_trigger_delay_ms = max_trigger_delay_ms
        self.phase = Phase.IDLING if cooldown_until_ms is None else Phase.COOLDOWN
        self._cooldown_until_ms = cooldown_until_ms or 0
        #: The first change that the present phase handles.
        self._changed_ms: int | None = None
        #: STABILIZING: the time of the next look for the desired slots.
        self._look_ms: int | None = None

    @property
    def next_deadline_ms(self) -> int | None:
        match self.phase:
            case Phase.COOLDOWN:
                return self._cooldown_until_ms
            case Phase.STABILIZING:
                assert self._changed_ms is not None
                stabilized_ms = self._changed_ms + self._stabilization_timeout_ms
                return stabilized_ms if self._look_ms is None else min(self._look_ms, stabilized_ms)
            case Phase.STABILIZED:
                assert self._changed_ms is not None
                return self._changed_ms + self._max_trigger_delay_ms
        return None

    @property
    def waits_for_trigger(self) -> bool:
        """True if a trigger would lead to the transition."""
        if self.phase is Phase.STABILIZING:
            return self._context.has_desired_resources()
        return self.phase is Phase.STABILIZED and self._context.has_sufficient_resources()

    def on_change(self, now_ms: int) -> None:
        """Handles a change of the slots or of the requirements."""
        match self.phase:
            case Phase.COOLDOWN if self._changed_ms is None and self._context.has_sufficient_resources():
                self._changed_ms = now_ms
            case Phase.IDLING if self._context.has_sufficient_resources():
                self._stabilize(now_ms)
            case Phase.STABILIZING if self._look_ms is None:
                self._look_ms = now_ms + self._max_trigger_delay_ms
        self.check_deadlines(now_ms)

    def on_trigger(self, now_ms: int) -> None:
        """Handles a good moment for the transition."""
        if self.phase is Phase.STABILIZING and self._context.has_desired_resources():
            self._transition()
        elif self.phase is Phase.STABILIZED:
            self._transition_or_idle()

    def check_deadlines(self, now_ms: int) -> None:
        """Handles all deadlines that have passed."""
        while self.next_deadline_ms is not None and self.next_deadline_ms <= now_ms:
            if self.phase is Phase.COOLDOWN:
                if self._changed_ms is None:
                    self.phase = Phase.IDLING
                else:
                    self._stabilize(self._changed_ms)
            elif self.phase is Phase.STABILIZED:
                self._transition_or_idle()
            elif self._look_ms is not None and self._look_ms <= now_ms:
                self._look_ms = None
                if self._context.has_desired_resources():
                    self._transition()
            else:
                self.phase = Phase.STABILIZED

    def _stabilize(self, changed_ms: int) -> None:
        self.phase = Phase.STABILIZING
        self._changed_ms = changed_ms
        self._look_ms = changed_ms + self._max_trigger_delay_ms

    def _transition_or_idle(self) -> None:
        if self._context.has_sufficient_resources():
            self._transition()
        else:
            self.phase = Phase.IDLING
            self._changed_ms = None

    def _transition(self) -> None:
        self.phase = Phase.TRANSITIONING
        self._context.transition_to_subsequent_state()
