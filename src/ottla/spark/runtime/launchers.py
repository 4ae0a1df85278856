"""Launchers: small programs of ours that run another program a little differently, for what only knows how to
start a program.

A launcher is made once for each script and user, in the user's cache, as `bin/NAME` of a home of its own. It
is put in place by a rename, so processes that make it at the same time do not disturb each other, and one
that was damaged is made again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path


def launcher_home(name: str, script: str, cache: Path) -> Path:
    """The home whose `bin/NAME` is this script."""
    content = script.encode()
    home = cache / f"{name}-{sha256(content).hexdigest()[:16]}"
    program = home / "bin" / name
    if not (os.access(program, os.X_OK) and program.read_bytes() == content):
        program.parent.mkdir(parents=True, exist_ok=True)
        _put(program, content)
    return home


def shell_word(path: Path | str) -> str:
    """A path as one word of a shell's command, whatever is in it."""
    inside = str(path).replace("'", "'\\''")
    return f"'{inside}'"


def users_cache(environment: Mapping[str, str]) -> Path:
    """The user's cache directory for Ottla, or one among the temporary files where a user has no home."""
    given = environment.get("XDG_CACHE_HOME")
    try:
        base = Path(given) if given else _default_cache()
        (base / "ottla").mkdir(parents=True, exist_ok=True)
        if os.access(base / "ottla", os.W_OK | os.X_OK):
            return base / "ottla"
    except (OSError, RuntimeError):
        pass
    return _private_temporary_directory()


def _put(program: Path, content: bytes) -> None:
    descriptor, partial = tempfile.mkstemp(dir=program.parent, prefix=f".{program.name}-")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.chmod(partial, 0o755)
    os.replace(partial, program)


def _default_cache() -> Path:
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def _private_temporary_directory() -> Path:
    """A directory that no other user can have made: the files in it are executed."""
    directory = Path(tempfile.gettempdir()) / f"ottla-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    state = directory.lstat()
    if state.st_uid != os.getuid() or state.st_mode & 0o077 or directory.is_symlink():
        return Path(tempfile.mkdtemp(prefix="ottla-"))
    return directory
