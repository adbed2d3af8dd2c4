from __future__ import annotations

from flinkpy.common.configuration import Configuration
from flinkpy.jobmaster.options import JobMasterOptions, job_master_options


def test_a_job_that_configures_nothing_has_the_defaults_that_the_configuration_documents():
    assert JobMasterOptions() == job_master_options(Configuration())
