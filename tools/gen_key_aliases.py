"""Write src/flinkpy/configuration/key_aliases.tsv: the deprecated and fallback keys of Flink's options.

    python tools/gen_key_aliases.py .bench/pyflink/lib/python3.11/site-packages/pyflink

Run by hand for a new Flink. The argument is the folder of an installed `pyflink` package, or any folder with the jars
of a Flink distribution. Needs Java 17. The options are read from the classes by reflection.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
TARGET = TOOLS.parent / "src/flinkpy/configuration/key_aliases.tsv"
#: The jar of this name hides another one, with the planner's options.
PLANNER_LOADER = "flink-table-planner-loader"

HEAD = """\
# Every other key under which Flink 2.3.0 reads an option: current key, other key, deprecated or fallback.
# Keys of one option stand in the order in which Flink tries them. Written by tools/gen_key_aliases.py; do not edit.
"""


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    jars = sorted(Path(sys.argv[1]).rglob("*.jar"))
    if not any(jar.name.startswith("flink-dist") for jar in jars):
        sys.exit(f"no flink-dist jar below {sys.argv[1]}")
    with tempfile.TemporaryDirectory() as directory:
        for loader in (jar for jar in jars if jar.name.startswith(PLANNER_LOADER)):
            with zipfile.ZipFile(loader) as archive:
                nested = [name for name in archive.namelist() if name.endswith(".jar")]
                jars += [Path(archive.extract(name, directory)) for name in nested]
        flink_jars = [str(jar) for jar in jars if jar.name.startswith("flink-")]
        class_path = os.pathsep.join(map(str, jars))
        command = ["java", "-cp", class_path, str(TOOLS / "ConfigKeys.java"), *flink_jars]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    TARGET.write_text(HEAD + table(printed))


def table(printed: str) -> str:
    """Returns the rows of the table (current key, position, other key, kind) from the output of ConfigKeys."""
    rows = sorted({tuple(line.split("\t")) for line in printed.splitlines() if line.count("\t") == 3})
    return "".join(f"{current}\t{other}\t{kind}\n" for current, _position, other, kind in rows)


if __name__ == "__main__":
    main()
