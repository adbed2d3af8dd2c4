"""The dashboard in a real browser, in front of a cluster of real processes."""

from __future__ import annotations

from pathlib import Path

from browser import Dashboard
from job_support import wait_until
from test_rest_jobs import start_endless_job


def test_a_stranger_is_told_how_to_log_in(dashboard: Dashboard) -> None:
    with dashboard.tolerating(r"^401 .*/v1/"):
        dashboard.page.goto(dashboard.url)
        dashboard.heading("You are not logged in").wait_for()
        dashboard.see("flinkpy dashboard")


def test_a_running_job_is_shown_and_canceled(dashboard: Dashboard, tmp_path: Path) -> None:
    job_id = start_endless_job(dashboard.cluster, tmp_path)
    dashboard.log_in()
    jobs = dashboard.page.get_by_role("table", name="Running jobs")
    jobs.get_by_role("link", name="endless <job>").click()
    dashboard.heading("endless <job>").wait_for()
    dashboard.see("numbers")
    dashboard.screenshot("job")
    dashboard.page.get_by_role("button", name="Cancel").click()
    dashboard.page.get_by_role("button", name="Cancel the job").click()
    dashboard.see("endless <job> is being canceled")
    wait_until(lambda: dashboard.cluster.client.request_job_status(job_id).is_terminal, "the job is canceled")
    dashboard.page.get_by_text("CANCELED").first.wait_for()
