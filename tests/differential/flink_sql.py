"""Flink's own SQL parser, and the statements of Flink's own tests."""

from __future__ import annotations

import os
import random
import re
import subprocess
import zipfile
from pathlib import Path

from flinkpy.sql.parser.lexer import tokenize
from flinkpy.sql.parser.tokens import KEYWORDS

_PROGRAM = Path(__file__).resolve().parent / "java" / "SqlParserAnswers.java"
_BEGINNING = re.compile(
    r"[\s(]*(?:SELECT|WITH|VALUES|INSERT|CREATE|ALTER|DROP|SHOW|DESC|DESCRIBE|EXPLAIN|USE|SET|RESET|LOAD|UNLOAD|ADD|REMOVE"
    r"|ANALYZE|CALL|STOP|COMPILE|EXECUTE|BEGIN|UPDATE|DELETE|TRUNCATE|REPLACE|UPSERT)\b",
    re.IGNORECASE,
)
_JAVA_STRINGS = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*\+\s*"(?:[^"\\\n]|\\.)*")*')
_JAVA_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def flink_libraries() -> Path:
    """Returns the directory of Flink's jars: `lib` of FLINK_HOME, or that of an environment with PyFlink."""
    home = os.environ.get("FLINK_HOME")
    if home:
        return Path(home) / "lib"
    from benchmarks.peers import pyflink_python

    return next(pyflink_python().parent.parent.glob("lib/python*/site-packages/pyflink/lib"))


def flink_answers(statements: list[str], libraries: Path, directory: Path) -> list[str]:
    """Returns Flink's tree of each statement as text, or an exclamation mark and its error.

    Args:
        directory: an empty directory for the planner's jar, which Flink keeps inside of another jar.
    """
    with zipfile.ZipFile(next(libraries.glob("flink-table-planner-loader-*.jar"))) as loader:
        planner = loader.extract("flink-table-planner.jar", directory)
    path = os.pathsep.join([planner, *map(str, sorted(libraries.glob("*.jar")))])
    done = subprocess.run(
        ["java", "-cp", path, str(_PROGRAM)],
        input="".join(f"{statement}\0" for statement in statements).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    answers = done.stdout.decode().split("\0")[:-1]
    assert len(answers) == len(statements)
    return answers


def statements_of_checkout(checkout: Path) -> list[str]:
    """Returns what begins like a statement in the strings of tests and in the documentation of a checkout of Flink."""
    found: set[str] = set()
    for pattern in ("flink-table/**/src/test/**/*.java", "flink-table/**/src/test/**/*.xml", "docs/content/**/*.md"):
        for path in checkout.glob(pattern):
            text = path.read_text(encoding="utf-8", errors="replace")
            if path.suffix == ".java":
                candidates = [_joined(each) for each in _JAVA_STRINGS.findall(text)]
            elif path.suffix == ".xml":
                candidates = re.findall(r"<!\[CDATA\[(.*?)\]\]>", text, re.DOTALL)
            else:
                blocks = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
                candidates = [each for block in blocks for each in re.split(r";\s*\n", block)]
            found.update(each.strip().rstrip(";").strip() for each in candidates if _BEGINNING.match(each))
    return sorted(each for each in found if "\0" not in each)


def _joined(literal: str) -> str:
    """Returns the value of string literals of Java with plus signs between them."""
    body = "".join(_JAVA_STRING.findall(literal))
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape.group(1), escape.group(1)), body)


def mutated(statements: list[str], number: int, seed: int) -> list[str]:
    """Returns statements with tokens removed, doubled, swapped, or replaced by tokens of other statements."""
    source = random.Random(seed)
    texts = [[token.text for token in tokenize(statement)[:-1]] for statement in statements]
    pool = [token for text in texts for token in text] + sorted(KEYWORDS)
    made: set[str] = set()
    while len(made) < number:
        tokens = list(source.choice(texts))
        place = source.randrange(len(tokens))
        change = source.choice(("remove", "double", "insert", "replace", "swap"))
        if change == "remove":
            del tokens[place]
        elif change == "double":
            tokens.insert(place, tokens[place])
        elif change == "insert":
            tokens.insert(place, source.choice(pool))
        elif change == "replace":
            tokens[place] = source.choice(pool)
        else:
            other = source.randrange(len(tokens))
            tokens[place], tokens[other] = tokens[other], tokens[place]
        if ";" not in tokens:
            made.add(" ".join(tokens))
    return sorted(made)
