"""Proofs of the data plane: accepted and refused ones."""

from __future__ import annotations

import dataclasses

import pytest

from flinkpy.network.transport.authenticator import (
    HmacAuthenticator,
    Introductions,
    LoopbackAuthenticator,
    PeerRole,
)

SAID = Introductions(2, 2, 2, "10.0.0.1:7", "consumer", b"c" * 32, "producer", b"p" * 32)
OURS = HmacAuthenticator(b"k" * 32)

OTHERS = {
    "version": 3,
    "newest": 9,
    "oldest": 1,
    "address": "10.0.0.2:7",
    "consumer_id": "consumer2",
    "consumer_nonce": b"C" * 32,
    "producer_id": "producer2",
    "producer_nonce": b"P" * 32,
}


@pytest.mark.parametrize("role", PeerRole)
def test_a_peer_with_the_key_is_accepted_in_the_role_of_its_proof(role: PeerRole) -> None:
    assert HmacAuthenticator(b"k" * 32).accepts("10.9.9.9", SAID, role, OURS.proof(SAID, role))


def test_a_proof_sent_back_to_its_author_is_refused() -> None:
    assert not OURS.accepts("10.9.9.9", SAID, PeerRole.CONSUMER, OURS.proof(SAID, PeerRole.PRODUCER))


@pytest.mark.parametrize("field", OTHERS)
def test_a_proof_for_other_introductions_is_refused(field: str) -> None:
    other = dataclasses.replace(SAID, **{field: OTHERS[field]})

    assert not OURS.accepts("10.9.9.9", other, PeerRole.CONSUMER, OURS.proof(SAID, PeerRole.CONSUMER))


def test_a_proof_covers_every_field() -> None:
    assert {field.name for field in dataclasses.fields(Introductions)} == set(OTHERS)


def test_bytes_moved_between_fields_change_the_proof() -> None:
    moved = dataclasses.replace(SAID, address="10.0.0.1:", consumer_id="7consumer")

    assert moved.as_bytes() != SAID.as_bytes()


@pytest.mark.parametrize("proof", [b"", b"\0" * 32, b"x" * 31, b"x" * 1000])
def test_invalid_proofs_are_refused(proof: bytes) -> None:
    assert not OURS.accepts("127.0.0.1", SAID, PeerRole.CONSUMER, proof)


def test_a_proof_with_another_key_is_refused() -> None:
    proof = HmacAuthenticator(b"K" * 32).proof(SAID, PeerRole.CONSUMER)

    assert not OURS.accepts("127.0.0.1", SAID, PeerRole.CONSUMER, proof)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes"):
        HmacAuthenticator(b"short")


def test_the_key_is_not_shown() -> None:
    assert "k" * 4 not in repr(OURS)


def test_only_peers_on_this_host_are_accepted_without_a_key() -> None:
    assert LoopbackAuthenticator().accepts("127.0.0.1", SAID, PeerRole.CONSUMER, b"")
    assert not LoopbackAuthenticator().accepts("10.0.0.1", SAID, PeerRole.CONSUMER, b"")
