"""Deprecated and fallback keys are read as in Flink."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from flinkpy.common import Configuration
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import load_configuration, read_option, validate
from flinkpy.configuration.checkpointing_options import DIRECTORY, LOCAL_BACKUP
from flinkpy.configuration.high_availability_options import HA_MODE
from flinkpy.configuration.key_aliases import aliases_of, key_aliases
from flinkpy.configuration.registry import find_option, implemented_options, known_options, nearest_key
from flinkpy.configuration.state_backend_options import STATE_BACKEND
from flinkpy.configuration.taskmanager_options import NETWORK_MEMORY_MIN

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_key_aliases", TOOLS / "gen_key_aliases.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table_has_every_alias_of_flink_2_3() -> None:
    kinds = [alias.is_deprecated for alias in key_aliases()]
    assert (kinds.count(True), kinds.count(False)) == (164, 15)


def test_every_alias_belongs_to_a_known_option() -> None:
    assert [alias for alias in key_aliases() if alias.current not in known_options()] == []
    assert [alias for alias in key_aliases() if find_option(alias.key) is None] == []


def test_implemented_options_are_read_under_each_of_their_keys() -> None:
    """The first alias that is set determines the value."""
    read = 0
    for option in {option.key: option for option in implemented_options().values()}.values():
        keys = (option.key, *(alias.key for alias in aliases_of(option.key)))
        for position, key in enumerate(keys):
            others = [other for other in option.keys if option.keys.index(other) > option.keys.index(key)]
            text = option.choices[0] if option.choices else option.default_text
            if option.default is None and not option.choices:
                text = "7"
            entries = {key: text, **dict.fromkeys(others, "not to be parsed:")}
            assert read_option(entries, option) == option.parse(text), (option.key, key)
            read += position > 0
    assert read > 70


def test_generator_keeps_the_order_in_which_flink_tries_keys(generator: ModuleType) -> None:
    printed = "a.dir\t01\ta.oldest\tdeprecated\na.dir\t00\tz.old\tdeprecated\nnoise\nb\t00\tc\tfallback\n"
    assert generator.table(printed) == "a.dir\tz.old\tdeprecated\na.dir\ta.oldest\tdeprecated\nb\tc\tfallback\n"


@pytest.mark.parametrize(
    "text",
    [
        "state.backend: rocksdb\nstate.checkpoints.dir: /tmp/c\ntaskmanager.network.memory.min: 32 mb",
        "state: {backend: rocksdb, checkpoints: {dir: /tmp/c}}\ntaskmanager: {network: {memory: {min: 32mb}}}",
    ],
)
def test_old_keys_in_a_configuration_file_have_an_effect(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    configuration = load_configuration(tmp_path)

    validate(configuration)
    assert read_option(configuration, STATE_BACKEND) == "rocksdb"
    assert read_option(configuration, DIRECTORY) == "/tmp/c"
    assert read_option(configuration, NETWORK_MEMORY_MIN) == 32 << 20


def test_the_current_key_takes_precedence_over_an_old_key_of_any_source(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("state.backend.type: hashmap")
    assert read_option(load_configuration(tmp_path, ["state.backend=rocksdb"]), STATE_BACKEND) == "hashmap"


def test_a_fallback_key_takes_precedence_over_a_deprecated_key() -> None:
    configuration = Configuration()
    configuration.set_string("state.backend.local-recovery", "true")
    assert read_option(configuration, LOCAL_BACKUP) is True
    configuration.set_string("execution.state-recovery.from-local", "false")
    assert read_option(configuration, LOCAL_BACKUP) is False


def test_deprecated_keys_are_tried_in_the_order_of_flink() -> None:
    assert read_option({"recovery.mode": "ZOOKEEPER", "high-availability": "NONE"}, HA_MODE) == "ZOOKEEPER"


def test_the_value_of_an_old_key_is_validated() -> None:
    with pytest.raises(ConfigurationError, match=r"`state\.backend` has the value `heap`: expected one of hashmap"):
        validate({"state.backend": "heap"})
    with pytest.raises(ConfigurationError, match=r"`dstl\.dfs\.upload\.max-in-flight`"):
        validate({"dstl.dfs.upload.max-in-flight": "much"})


def test_old_keys_are_not_suggested() -> None:
    assert nearest_key("state.backends") == "state.backend.type"
    assert nearest_key("state.checkpoint.dir") not in {alias.key for alias in key_aliases()}
