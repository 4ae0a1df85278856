"""The command `ottla`, run as a user runs it: a process of its own, whatever the environment of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

OTTLA = str(Path(sys.executable).with_name("ottla"))


def ottla(
    *arguments: str, bootstrap: str | None = None, stdin: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    if bootstrap is not None:
        variables["OTTLA_BOOTSTRAP"] = bootstrap
    return subprocess.run(
        [OTTLA, *arguments],
        capture_output=True,
        input=stdin,
        text=True,
        timeout=60,
        env=variables | environment,
        check=False,
    )
