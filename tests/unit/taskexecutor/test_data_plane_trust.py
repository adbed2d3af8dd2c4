from __future__ import annotations

import pytest

from flinkpy.taskexecutor.entrypoint import data_plane_authenticator


@pytest.mark.parametrize(
    ("bind_address", "accepted"), [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True), ("10.0.0.2", True)]
)
def test_peers_of_other_hosts_are_taken_only_where_one_listens_to_them(bind_address, accepted):
    authenticator = data_plane_authenticator(bind_address)
    assert authenticator.accepts("10.0.0.1", b"nonce", b"", is_consumer=True) is accepted
    assert authenticator.accepts("127.0.0.1", b"nonce", b"", is_consumer=True)
