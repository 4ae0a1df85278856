"""Runs one test with a planted bug: `python -m tests.simulation.bugs.run_planted BUG TEST`.

The process exits with `FAILED` if the test fails, as it should.
"""

from __future__ import annotations

import sys
from typing import Final

import pytest
from tests.simulation.bugs.catalogue import planted

FAILED: Final = int(pytest.ExitCode.TESTS_FAILED)

if __name__ == "__main__":
    with planted(sys.argv[1]):
        sys.exit(pytest.main([sys.argv[2], "-x", "-p", "no:cacheprovider"]))
