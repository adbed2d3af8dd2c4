"""Count words that never end: a job to look at, to take savepoints of and to stop.

flinkpy run -d examples/endless_words.py                # returns at once
flinkpy logs -f endless-words                           # every word with its new count
flinkpy stop -p savepoints endless-words
flinkpy run -d -s savepoints/savepoint-... examples/endless_words.py    # the counts go on
"""

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

WORDS = ("to", "be", "or", "not", "that", "is", "the", "question")
WORDS_PER_SECOND = 4


def word(number):
    return WORDS[number * number % 11 % len(WORDS)]


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(10_000)
    source = DataGeneratorSource(word, 1 << 62, RateLimiterStrategy.per_second(WORDS_PER_SECOND), Types.STRING())
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "words")
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda left, right: (left[0], left[1] + right[1]))
        .print()
    )
    env.execute("endless-words")


if __name__ == "__main__":
    main()
