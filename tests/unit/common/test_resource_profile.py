"""ResourceProfile and ResourceCounter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy._proto import resourcemanager_pb2
from flinkpy.common.resource_profile import ResourceCounter, ResourceProfile, format_amounts
from flinkpy.graph.resource_profiles import resource_profile_from_proto, resource_profile_to_proto

UNKNOWN, ANY, ZERO = ResourceProfile.UNKNOWN, ResourceProfile.ANY, ResourceProfile.ZERO
GPU = (("gpu", 1.0),)

amounts = st.integers(0, 1 << 40)
profiles = st.builds(
    ResourceProfile,
    st.floats(0, 64).map(lambda cores: round(cores, 3)),
    amounts,
    amounts,
    amounts,
    amounts,
    st.dictionaries(st.sampled_from(["gpu", "fpga"]), st.integers(1, 8).map(float)).map(lambda d: tuple(d.items())),
)


@given(profiles, profiles)
def test_a_part_that_was_merged_can_be_subtracted_again(one: ResourceProfile, other: ResourceProfile) -> None:
    both = one.merge(other)
    assert both == other.merge(one)
    assert both.subtract(other) == one
    assert both.remaining_after(one) == other
    assert both.all_fields_no_less_than(one) and not both.lacks_of(other)


@given(profiles, st.integers(1, 16))
def test_equal_parts_together_are_never_more_than_the_whole(whole: ResourceProfile, parts: int) -> None:
    assert whole.all_fields_no_less_than(whole.divide(parts).multiply(parts))


@given(profiles)
def test_a_profile_crosses_the_wire_unchanged(profile: ResourceProfile) -> None:
    for sent in (profile, UNKNOWN, ANY):
        message = resourcemanager_pb2.ResourceRequirement(resources=resource_profile_to_proto(sent))
        assert resource_profile_from_proto(message, "resources") == sent


def test_a_slot_matches_equal_and_unknown_requirements() -> None:
    slot = ResourceProfile(1, 100)
    assert slot.is_matching(UNKNOWN) and slot.is_matching(ResourceProfile(1.0, 100)) and ANY.is_matching(slot)
    assert not slot.is_matching(ResourceProfile(0.5, 100)) and not slot.is_matching(ANY)
    with pytest.raises(ValueError, match="UNKNOWN"):
        UNKNOWN.is_matching(slot)


def test_special_profiles_absorb_numbers() -> None:
    slot = ResourceProfile(1, 100)
    assert slot.merge(ANY) is ANY and slot.merge(UNKNOWN) is UNKNOWN and ANY.subtract(slot) is ANY
    assert ANY.all_fields_no_less_than(slot) and not slot.all_fields_no_less_than(ANY)
    assert ANY.divide(3) is ANY and slot.merge(ZERO) == slot
    assert not ANY.lacks_of(slot) and not slot.lacks_of(UNKNOWN)


def test_lacking_resources_are_named_with_their_amount() -> None:
    host = ResourceProfile(2, 1 << 30, external=GPU)
    lacking = host.lacks_of(ResourceProfile(64, 1 << 30, managed_bytes=1 << 20, external=(("gpu", 8.0),)))
    assert lacking == {"CPU cores": 62, "managed memory": 1 << 20, "gpu": 7}
    assert format_amounts(lacking) == "CPU cores: 62, managed memory: 1.000mb (1048576 bytes), gpu: 7"


def test_negative_amounts_are_refused() -> None:
    with pytest.raises(ValueError, match="managed memory of a resource profile must not be negative"):
        ResourceProfile(1, managed_bytes=-1)
    with pytest.raises(ValueError, match="cannot subtract"):
        ResourceProfile(1).subtract(ResourceProfile(2))


def test_a_counter_adds_up_slots_by_profile() -> None:
    slot = ResourceProfile(1, 100)
    counter = ResourceCounter([slot, UNKNOWN, slot])
    assert (counter.total, counter[slot], counter[ANY]) == (3, 2, 0)
    assert counter == ResourceCounter({slot: 2, UNKNOWN: 1, ANY: 0})
