"""flinkpy: Apache Flink's runtime, guarantees and names, in Python."""

import sys

from flinkpy import moved_modules
from flinkpy.platforms import check_import

check_import(sys.platform)
moved_modules.install()

__version__ = "0.1.0"
