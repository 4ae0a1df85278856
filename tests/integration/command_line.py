"""The command `ottla`, run as a user runs it: a process of its own, whatever the environment of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from ottla.cli.main import ottla as _group

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


def ottla_here(*arguments: str, bootstrap: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end in this process, which saves the start of another: for commands that only ask."""
    done = CliRunner().invoke(_group, [*arguments], env={"OTTLA_BOOTSTRAP": bootstrap})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return subprocess.CompletedProcess([*arguments], done.exit_code, done.stdout, done.stderr)
