"""Count words: the first program everybody writes.

    python examples/word_count.py                           # on a cluster inside this program
    python examples/word_count.py --input DIRECTORY_OR_FILE
    flinkpy run examples/word_count.py                      # on the cluster of `flinkpy cluster start`

Every word prints its new count whenever it is seen again; the last line of a word is its count.
"""

import argparse
import re

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSource, StreamFormat

LINES = [
    "To be, or not to be, that is the question:",
    "Whether 'tis nobler in the mind to suffer",
    "The slings and arrows of outrageous fortune,",
    "Or to take arms against a sea of troubles",
    "And by opposing end them. To die: to sleep;",
    "No more; and by a sleep to say we end",
    "The heart-ache and the thousand natural shocks",
    "That flesh is heir to, 'tis a consummation",
    "Devoutly to be wish'd. To die, to sleep;",
    "To sleep: perchance to dream: ay, there's the rub;",
]


def words(line):
    return re.findall(r"[a-z]+(?:'[a-z]+)?", line.lower())


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--input", help="a text file, or a directory of them")
    options = arguments.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)  # a few lines need no more; without this it would be the number of cores
    if options.input:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), options.input).build()
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    else:
        lines = env.from_collection(LINES, type_info=Types.STRING())

    counts = (
        lines.flat_map(words, output_type=Types.STRING())
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda left, right: (left[0], left[1] + right[1]))
    )
    counts.print()
    env.execute("word count")


if __name__ == "__main__":
    main()
