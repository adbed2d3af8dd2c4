"""`flinkpy run-application | standalone-job | run -t` refuse wrong targets before they start anything."""

from __future__ import annotations

import pytest

from flinkpy.cli.main import EXIT_USER_ERROR, run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run-application", "nothing.py"), "does not exist"),
        (("standalone-job", "--resourcemanager", "127.0.0.1:1", "nothing.py"), "nothing.py does not exist"),
        (("run", "-t", "yarn-per-job", __file__), "use `flinkpy run-application`"),
        (("run-application", "-t", "kubernetes-per-job", __file__), "flinkpy standalone-job"),
        (("run-application", "-t", "kubernetes-application", __file__), "pods need an image"),
        (("run", "-t", "kubernetes-application", __file__), "needs `flinkpy run-application`"),
        (("run-application", "-t", "remote", __file__), "has a cluster of its own"),
        (("run-application", "-D", "cluster.id=mine", __file__), "not 32 hex digits"),
        (("run-application", "-n", __file__), "name it with -s PATH"),
    ],
)
def test_an_unsupported_target_is_refused_by_name(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(list(arguments)) == EXIT_USER_ERROR
    told = capsys.readouterr().err
    assert message in told and "Traceback" not in told
