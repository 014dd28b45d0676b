"""The plug-in of pytest. A wheel registers it; elsewhere `pytest -p lockstep.pytest_plugin` does."""

import pytest

from lockstep import testing


@pytest.fixture
def lockstep_watch(tmp_path_factory):
    """`lockstep.testing.run_watched`, with a new folder for the files of each job."""
    def run(command, ranks=2, options=(), python=None):
        return testing.run_watched(command, ranks, tmp_path_factory.mktemp("lockstep"), options, python)

    return run
