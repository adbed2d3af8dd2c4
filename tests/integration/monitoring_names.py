"""The names of the metrics that the dashboard and the alerts of deploy/monitoring use."""

from __future__ import annotations

import json
import re

from compose_file import ROOT

MONITORING = ROOT / "deploy" / "monitoring"
DASHBOARD = MONITORING / "grafana" / "flinkpy.json"
RULES = MONITORING / "rules.yml"


def used_names() -> set[str]:
    """Returns the names of all metrics of flinkpy in expressions."""
    dashboard = json.loads(DASHBOARD.read_text())
    texts = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    texts += [variable.get("definition", "") for variable in dashboard["templating"]["list"]]
    texts += re.findall(r"expr: (?:>-\n)?((?:.*\n)(?: {10}.*\n)*)", RULES.read_text())
    return set(re.findall(r"(?<![:\w])flink_\w+", " ".join(texts)))
