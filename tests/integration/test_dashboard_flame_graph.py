"""The flame graph of a vertex in a real browser, with a real job."""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any

from browser import Dashboard
from job_support import environment, wait_until

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.datastream.connectors.number_seq import NumberSequenceSource
from flinkpy.datastream.functions import MapFunction, RuntimeContext


class ParseOrder(MapFunction):
    def map(self, value: int) -> dict[str, Any]:
        return self.decode(self.read(value))

    def read(self, value: int) -> str:
        return json.dumps({"id": value, "items": list(range(40)), "shop": f"shop-{value % 97}"})

    def decode(self, text: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(text)
        return found


class ScoreOrder(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._random = random.Random(7)

    def map(self, order: dict[str, Any]) -> tuple[str, float]:
        return order["shop"], self.estimate_risk(order["items"])

    def estimate_risk(self, items: list[int]) -> float:
        risk = 0.0
        for item in items:
            risk += self.weigh(item)
        return risk

    def weigh(self, item: int) -> float:
        return sum(self._random.random() * item for _ in range(3))


class AskStock(MapFunction):
    """Waits once for ten orders, so that neither vertex waits for the other all the time."""

    _num_orders = 0

    def map(self, scored: tuple[str, float]) -> tuple[str, float]:
        self._num_orders += 1
        if self._num_orders % 10 == 0:
            self.wait_for_stock_service()
        return scored

    def wait_for_stock_service(self) -> None:
        time.sleep(0.002)


def start_job(dashboard: Dashboard) -> str:
    env = environment(dashboard.cluster, 2)
    source = NumberSequenceSource(1, 2**62)
    orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders", Types.LONG())
    scored = orders.map(ParseOrder()).name("parse").map(ScoreOrder()).name("score")
    scored.rebalance().map(AskStock()).name("ask stock").filter(lambda _: False).print()
    job_id = str(env.execute_async("orders").get_job_id())

    def asks() -> bool:
        vertices = dashboard.cluster.client.request_job(job_id).vertices
        return any("stock" in one.name and one.metrics.num_records_in > 0 for one in vertices)

    wait_until(asks, "records arrive")
    return job_id


def test_a_flame_graph_shows_folds_finds_and_zooms_into_the_functions_of_a_vertex(dashboard: Dashboard) -> None:
    job_id = start_job(dashboard)
    vertices = {one.name: one.id for one in dashboard.cluster.client.request_job(job_id).vertices}
    scoring = next(vertex_id for name, vertex_id in vertices.items() if "score" in name)
    asking = next(vertex_id for name, vertex_id in vertices.items() if "stock" in name)
    page = dashboard.page
    tree = page.get_by_role("tree", name="Flame graph")

    def frame(name: str) -> Any:
        return tree.get_by_role("treeitem", name=re.compile(name)).first

    dashboard.log_in()
    dashboard.open(f"/jobs/{job_id}/vertices/{scoring}")
    page.get_by_role("link", name="Flame graph").click()
    dashboard.see("Taking samples")
    page.get_by_role("button", name="On CPU").click()
    frame("ScoreOrder.estimate_risk: ").wait_for()
    assert "user" in frame("ScoreOrder.estimate_risk: ").get_attribute("class")
    frame(r"score \(fused loop\)").wait_for()
    assert tree.get_by_role("treeitem", name=re.compile("StreamTask")).count() == 0, "the runtime is folded"
    dashboard.screenshot("flame-graph")

    page.get_by_role("checkbox", name="Frames of flinkpy").check()
    frame("StreamTask").wait_for()
    page.get_by_role("checkbox", name="Frames of flinkpy").uncheck()
    page.get_by_role("checkbox", name="Lines").check()
    frame(r"ScoreOrder.estimate_risk:\d+").wait_for()
    page.get_by_role("checkbox", name="Lines").uncheck()

    page.get_by_role("searchbox", name="Find functions").fill("json")
    dashboard.see(re.compile(r"\d+ % of the samples match"))
    assert "is-match" in frame("json.").get_attribute("class")
    page.get_by_role("searchbox", name="Find functions").fill("")

    frame("ScoreOrder.map: ").click()
    assert "is-ancestor" in frame("all samples").get_attribute("class")
    assert tree.get_by_role("treeitem", name=re.compile("ParseOrder")).count() == 0
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        "test_dashboard_flame_graph.ScoreOrder.estimate_risk"
    )
    page.keyboard.press("Escape")
    frame("ParseOrder").wait_for()

    functions = page.get_by_role("table", name="Functions")
    functions.get_by_role("button", name=re.compile(r"ScoreOrder\.weigh$")).first.click()
    assert "is-match" in frame("ScoreOrder.weigh: ").get_attribute("class")

    page.get_by_role("combobox", name="Subtask").select_option("1")
    frame("ScoreOrder.estimate_risk: ").wait_for()
    page.get_by_role("button", name="Use dark colours").click()
    dashboard.screenshot("flame-graph-dark")

    dashboard.open(f"/jobs/{job_id}/vertices/{asking}/flame")
    page.get_by_role("button", name="Waiting").click()
    frame("AskStock.wait_for_stock_service: ").wait_for()
    dashboard.screenshot("flame-graph-waiting")
    dashboard.cluster.client.cancel_job(job_id)
    dashboard.see("This vertex has ended")
