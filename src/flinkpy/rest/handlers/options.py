"""Options that are set, with what they do. These operations are flinkpy's own."""

from __future__ import annotations

from collections.abc import Mapping

from flinkpy.configuration.redaction import redacted
from flinkpy.configuration.registry import NOT_USED, find_option, implemented_options
from flinkpy.rest.handlers.job_inquiries import job_of
from flinkpy.rest.messages.options import ExplainedOption, ExplainedOptions
from flinkpy.rest.operation import RestCall, operation


@operation(
    "GET",
    "/jobs/:jobid/options",
    "Returns the options that are set for a job, by itself or by the cluster, and whether flinkpy acts on them.",
    response=ExplainedOptions,
    is_internal=True,
)
async def job_options(call: RestCall) -> ExplainedOptions:
    own = dict((await job_of(call)).configuration.entries)
    of_cluster = {key: value for key, value in call.context.configuration.to_dict().items() if key not in own}
    options = [*explained(own, "JOB"), *explained(of_cluster, "CLUSTER")]
    return ExplainedOptions(options=sorted(options, key=lambda one: one.key))


@operation(
    "GET",
    "/jobmanager/options",
    "Returns the options that are set for the cluster, and whether flinkpy acts on them.",
    response=ExplainedOptions,
    is_internal=True,
)
async def cluster_options(call: RestCall) -> ExplainedOptions:
    return ExplainedOptions(options=explained(call.context.configuration.to_dict(), "CLUSTER"))


def explained(entries: Mapping[str, str], source: str) -> list[ExplainedOption]:
    """Returns options in the order of their keys, without the values of secrets."""
    return [_explained(key, value, source) for key, value in sorted(redacted(dict(entries)).items())]


def _explained(key: str, value: str, source: str) -> ExplainedOption:
    implemented = implemented_options().get(key)
    option = implemented or find_option(key)
    if option is None:
        return ExplainedOption(
            key=key, value=value, source=source, effect="UNKNOWN", description="", default_value=None
        )
    # Keys below a prefix for users, such as the options of a reporter, act too.
    acts = option.has_effect and (implemented is not None or option.description != NOT_USED)
    return ExplainedOption(
        key=key,
        value=value,
        source=source,
        effect="ACTS" if acts else "IGNORED",
        description=option.description,
        default_value=None if implemented is None or option.default is None else option.default_text,
    )
