"""Event-time windows: bids per auction in ten seconds, once with a Python function and once in columns.

python examples/windows.py
"""

from flinkpy.common import Duration, Time, Types, WatermarkStrategy
from flinkpy.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count, max_
from flinkpy.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

BID = Types.ROW_NAMED(["auction", "price", "time"], [Types.STRING(), Types.LONG(), Types.LONG()])
#: (auction, price, milliseconds), not quite in the order of time.
BIDS = [("vase", 10, 1_000), ("lamp", 5, 4_000), ("vase", 12, 9_000), ("vase", 11, 8_000), ("vase", 30, 31_000)]


class Highest(AggregateFunction):
    """Keeps only one number per window, however many bids it has."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return max(accumulator, value["price"])

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return max(acc_a, acc_b)


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        for highest in elements:
            yield f"{key}: at most {highest} until second {context.window().end // 1000}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_column("time")
    bids = env.from_collection(BIDS, type_info=BID).assign_timestamps_and_watermarks(strategy)

    highest = (
        bids.key_by(lambda bid: bid["auction"])
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .aggregate(Highest(), WithWindow(), output_type=Types.STRING())
    )
    highest.print()

    # The same over columns: no Python object is made for a bid.
    in_columns = (
        bids.key_by("auction")
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5)))
        .aggregate(bids=count(), highest=max_("price"))
    )
    in_columns.print()
    env.execute("windows")


if __name__ == "__main__":
    main()
