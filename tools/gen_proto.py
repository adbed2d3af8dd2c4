"""Generate `src/flinkpy/_proto` from `proto/`. Run by `make proto`; a test compares its output with what is committed.

protoc writes imports relative to the proto path (`from flinkpy import common_pb2`), which would collide with this
package's own modules; they are rewritten to the private package the code is committed in.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def generate(destination: Path) -> list[Path]:
    """Write the generated package into `destination` and return its files."""
    from grpc_tools import protoc

    protos = sorted((ROOT / "proto" / "flinkpy").glob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        arguments = ["protoc", f"-I{ROOT / 'proto'}", f"--python_out={scratch}", f"--pyi_out={scratch}"]
        if protoc.main([*arguments, *map(str, protos)]) != 0:
            raise SystemExit("protoc failed")
        destination.mkdir(parents=True, exist_ok=True)
        written = []
        for generated in sorted(Path(scratch, "flinkpy").iterdir()):
            text = re.sub(
                r"^from flinkpy import (\w+_pb2)", r"from flinkpy._proto import \1", generated.read_text(), flags=re.M
            )
            target = destination / generated.name
            target.write_text(text)
            written.append(target)
    init = destination / "__init__.py"
    init.write_text('"""Generated from proto/ by tools/gen_proto.py; never edited by hand."""\n')
    return [*written, init]


if __name__ == "__main__":
    files = generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src" / "flinkpy" / "_proto")
    sys.stdout.write(f"{len(files)} files\n")
