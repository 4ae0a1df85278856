from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.spark.runtime.launchers import launcher_home, shell_word, users_cache


def test_a_launcher_is_a_program_and_made_once_for_each_script(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: launcher_home("greet", "#!/bin/sh\necho $1\n", tmp_path), range(50)))
    (home,) = made
    program = home / "bin" / "greet"
    assert os.listdir(program.parent) == ["greet"]
    assert subprocess.check_output([program, "hello"], text=True) == "hello\n"
    assert launcher_home("greet", "#!/bin/sh\n", tmp_path) != home


def test_a_damaged_launcher_is_mended(tmp_path: Path) -> None:
    program = launcher_home("greet", "#!/bin/sh\n", tmp_path) / "bin" / "greet"
    program.write_bytes(b"")
    launcher_home("greet", "#!/bin/sh\n", tmp_path)
    assert program.read_text() == "#!/bin/sh\n"
    program.chmod(0o644)
    launcher_home("greet", "#!/bin/sh\n", tmp_path)
    assert os.access(program, os.X_OK)


@pytest.mark.parametrize("path", ["/plain", "/two words", "/it's", '/$HOME "`x`', "/*"])
def test_any_path_is_one_word_of_a_shell(path: str) -> None:
    assert subprocess.check_output(["/bin/sh", "-c", f"printf %s {shell_word(path)}"], text=True) == path


def test_the_cache_is_where_the_user_keeps_such_things(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert users_cache({"XDG_CACHE_HOME": str(tmp_path / "named")}) == tmp_path / "named" / "ottla"
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert users_cache({}) == tmp_path / "Library/Caches/ottla"
