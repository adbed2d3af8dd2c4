"""Writes the OpenAPI document of the REST API, from which the types of the dashboard are generated."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from flinkpy.rest.handlers import all_operations
from flinkpy.rest.openapi import openapi_document

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(openapi_document(all_operations()), indent=1) + "\n", encoding="utf-8")
