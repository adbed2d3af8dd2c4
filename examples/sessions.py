"""Keyed state: how many times each user came back, without ever holding all events.

python examples/sessions.py
"""

from flinkpy.common import Types
from flinkpy.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flinkpy.datastream.state import ValueStateDescriptor

#: (user, minute of the day)
CLICKS = [("ada", 1), ("bob", 2), ("ada", 3), ("ada", 65), ("bob", 4), ("ada", 200), ("bob", 300), ("bob", 301)]
#: Minutes without a click after which the next one is a visit of its own.
GAP_MINUTES = 30


class CountVisits(KeyedProcessFunction):
    """Emits (user, visit number) at the first click of every visit."""

    def open(self, runtime_context: RuntimeContext):
        self.last_click = runtime_context.get_state(ValueStateDescriptor("last click", Types.INT()))
        self.visits = runtime_context.get_state(ValueStateDescriptor("visits", Types.INT()))

    def process_element(self, value, ctx):
        user, minute = value
        last = self.last_click.value()
        self.last_click.update(minute)
        if last is None or minute - last > GAP_MINUTES:
            visit = (self.visits.value() or 0) + 1
            self.visits.update(visit)
            yield user, visit


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    clicks = env.from_collection(CLICKS, type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
    visits = clicks.key_by(lambda click: click[0], key_type=Types.STRING()).process(
        CountVisits(), output_type=Types.TUPLE([Types.STRING(), Types.INT()])
    )
    visits.print()
    env.execute("visits")


if __name__ == "__main__":
    main()
