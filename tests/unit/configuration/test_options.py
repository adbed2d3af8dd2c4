"""Reading, validating and suggesting options."""

from __future__ import annotations

import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option, validate
from flinkpy.configuration.cluster_options import HEARTBEAT_INTERVAL
from flinkpy.configuration.core_options import LOG_LEVEL, PARALLELISM
from flinkpy.configuration.jobmanager_options import RESTART_STRATEGY
from flinkpy.configuration.options import OptionType, int_option
from flinkpy.configuration.pipeline_options import GLOBAL_JOB_PARAMETERS
from flinkpy.configuration.registry import find_option, implemented_options, known_options, nearest_key
from flinkpy.configuration.taskmanager_options import MEMORY_SEGMENT_SIZE, SLOT_TIMEOUT

#: Options whose default differs from Flink's, and why.
DIFFERENT_DEFAULTS = {
    "kubernetes.container.image.ref": "no image of flinkpy is published",
    **{
        f"kubernetes.{name}": "an empty map instead of none"
        for name in (
            "jobmanager.annotations",
            "internal-service.annotations",
            "internal-service.labels",
            "jobmanager.labels",
            "jobmanager.node-selector",
            "rest-service.annotations",
            "rest-service.labels",
            "taskmanager.labels",
            "taskmanager.annotations",
            "taskmanager.node-selector",
            "secrets",
            "persistent-volume-claims",
        )
    },
    "collect-sink.batch-size.max": "a record travels in parts, so that a large one costs no large message",
    "io.tmp.dirs": "the system's own temporary directory, which need not be /tmp",
    "env.pid.dir": "a directory of the user's, because /tmp is everybody's",
    "$internal.application.program-args": "an empty list instead of none",
    "pipeline.global-job-parameters": "an empty map instead of none",
    "execution.batch.adaptive.auto-parallelism.max-parallelism": "that of the environment, as Flink says",
    "state.backend.rocksdb.compaction.style": "levels write several times as much per checkpoint (decision 0006)",
    "state.backend.rocksdb.use-bloom-filter": "most reads of a new key find nothing, in every file without a filter",
    "high-availability.zookeeper.client.acl": "`creator`, where there is a secret to be the creator by",
    "high-availability.zookeeper.client.authorization": "an empty map instead of none",
    "security.ssl.internal.keystore-type": "told from the file",
    "security.ssl.rest.keystore-type": "told from the file",
    "security.ssl.rest.truststore-type": "told from the file",
    "security.ssl.internal.truststore-type": "told from the file",
    "rest.flamegraph.enabled": "nothing is sampled until somebody looks (decision 0052)",
}


def test_an_absent_option_has_its_default() -> None:
    assert read_option(Configuration(), HEARTBEAT_INTERVAL) == 10_000
    assert read_option({}, MEMORY_SEGMENT_SIZE) == 32_768


def test_an_option_is_read_with_its_type_from_a_configuration_and_a_mapping() -> None:
    assert read_option(Configuration.from_dict({"heartbeat.interval": "2 s"}), HEARTBEAT_INTERVAL) == 2_000
    assert read_option({"heartbeat.interval": "PT2S"}, HEARTBEAT_INTERVAL) == 2_000


def test_a_fallback_key_is_used_only_if_the_key_is_absent() -> None:
    assert read_option({"pekko.ask.timeout": "3 s"}, SLOT_TIMEOUT) == 3_000
    assert read_option({"pekko.ask.timeout": "3 s", "taskmanager.slot.timeout": "4 s"}, SLOT_TIMEOUT) == 4_000


def test_an_enum_value_is_read_in_any_case_and_returned_in_flinks_spelling() -> None:
    assert read_option({"restart-strategy.type": "FIXED_DELAY"}, RESTART_STRATEGY) == "fixed-delay"
    assert read_option({"env.log.level": "debug"}, LOG_LEVEL) == "DEBUG"


def test_a_map_may_be_written_as_separate_keys() -> None:
    assert read_option({"pipeline.global-job-parameters": "a:1"}, GLOBAL_JOB_PARAMETERS) == {"a": "1"}
    separate = Configuration.from_dict({"pipeline.global-job-parameters.a": "1", "parallelism.default": "2"})
    assert read_option(separate, GLOBAL_JOB_PARAMETERS) == {"a": "1"}


def test_a_bad_value_names_key_value_and_expectation() -> None:
    with pytest.raises(ConfigurationError, match=r"`heartbeat.interval` has the value `soon`: expected a duration"):
        read_option({"heartbeat.interval": "soon"}, HEARTBEAT_INTERVAL)
    with pytest.raises(ConfigurationError, match=r"`parallelism.default` has the value `0`: expected 1 or more"):
        read_option({"parallelism.default": "0"}, PARALLELISM)
    with pytest.raises(ConfigurationError, match=r"expected 5 or less"):
        read_option({"x": "6"}, int_option("x", 1, "", maximum=5))


def test_all_mistakes_are_reported_at_once() -> None:
    configuration = Configuration.from_dict(
        {
            "paralelism.default": "4",
            "heartbeat.interval": "soon",
            "restart-strategy.type": "sometimes",
            "taskmanager.numberOfTaskSlots": "2",
        }
    )
    with pytest.raises(ConfigurationError) as caught:
        validate(configuration)
    text = str(caught.value)
    assert "3 mistakes" in text
    assert "`paralelism.default` does not exist; did you mean `parallelism.default`?" in text
    assert "`heartbeat.interval` has the value `soon`" in text
    assert "`restart-strategy.type` has the value `sometimes`" in text


@pytest.mark.parametrize(
    ("entries", "culprit"),
    [
        ({"heartbeat.interval": "10 s", "heartbeat.timeout": "5 s"}, "heartbeat.timeout"),
        ({"taskmanager.memory.network.min": "2 mb", "taskmanager.memory.network.max": "1 mb"}, "network.max"),
        ({"slotmanager.number-of-slots.min": "3", "slotmanager.number-of-slots.max": "2"}, "number-of-slots.max"),
        ({"pipeline.max-parallelism": "0"}, "pipeline.max-parallelism"),
        (
            {
                "execution.checkpointing.interval": "1 s",
                "execution.checkpointing.interval-during-backlog": "500 ms",
            },
            r"interval-during-backlog` is 500 ms: it must be 0 \(no checkpoints\) or at least .*, 1000 ms",
        ),
        (
            {
                "pipeline.sources.pause-until-first-checkpoint": "true",
                "execution.checkpointing.interval-during-backlog": "0",
            },
            "pause-until-first-checkpoint` waits for a checkpoint",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(entries: dict[str, str], culprit: str) -> None:
    with pytest.raises(ConfigurationError, match=culprit):
        validate(entries)


def test_an_unused_key_of_flink_is_accepted_but_its_type_is_checked() -> None:
    validate({"rest.retry.delay": "1 s", "yarn.containers.vcores": "3", "metrics.reporter.prom.port": "9000-9100"})
    with pytest.raises(ConfigurationError, match=r"yarn.containers.vcores"):
        validate({"yarn.containers.vcores": "many"})


def test_keys_with_a_part_chosen_by_the_user_are_known() -> None:
    validate({"external-resource.gpu.amount": "2", "flink.hadoop.x": "y", "pipeline.global-job-parameters.t": "1"})
    validate({"external-resource.gpu.param.discovery-script.path": "/x.sh"})
    assert find_option("external-resource.gpu") is None


def test_a_shortened_key_suggests_the_whole_one() -> None:
    assert nearest_key("parallelism") == "parallelism.default"
    assert nearest_key("qqqqqqqq") is None


def test_every_key_of_flink_is_known() -> None:
    assert len(known_options()) == 1154


def test_defaults_are_flinks() -> None:
    from importlib import resources

    table = resources.files("flinkpy.configuration").joinpath("known_keys.tsv").read_text(encoding="utf-8")
    defaults = {line.split("\t")[0]: line.split("\t")[2] for line in table.splitlines() if not line.startswith("#")}
    checked = 0
    for key, option in implemented_options().items():
        if key != option.key or key not in defaults or key in DIFFERENT_DEFAULTS or option.type is OptionType.LIST:
            continue
        text = defaults[key]
        assert option.default == (None if text == "null" else option.parse(text)), key
        checked += 1
    assert checked > 60
