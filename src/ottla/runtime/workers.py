"""Worker processes: Python modules that run beside the broker and answer one line with one line."""

import os
import subprocess
import sys
from contextlib import suppress
from typing import Protocol


class Worker(Protocol):
    """One process. Calls come from one thread; `kill` may come from any, and ends a call in progress."""

    @property
    def pid(self) -> int:
        """The process's number."""

    def ask(self, line: str) -> str:
        """The answer to a line; empty if the process has ended. Raises OSError or ValueError if it does not
        listen.
        """

    def kill(self) -> None:
        """End the process at once."""

    def wait(self) -> int:
        """The exit status of a process that has ended."""

    def close(self) -> None:
        """Kill the process, reap it and close its pipes."""


class Workers(Protocol):
    """Starts worker processes."""

    def start(self, module: str, argument: str) -> Worker:
        """Run a module with an argument; the second argument is the number of the process that started it."""


class OsWorkers:
    """Processes of the operating system."""

    def start(self, module: str, argument: str) -> Worker:
        return _OsWorker(module, argument)


class _OsWorker:
    """A child process with pipes to its standard input and output."""

    def __init__(self, module: str, argument: str) -> None:
        # -P: nothing is imported from the working directory. Each process draws its own hash seed, even if
        # the environment fixes the broker's: otherwise keys could be chosen to collide.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, argument, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "random"},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, line: str) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line + "\n")
        stdin.flush()
        return stdout.readline()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        return self._process.wait()

    def close(self) -> None:
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()
