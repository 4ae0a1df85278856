"""Files with secrets: read if only their owner may read them."""

from pathlib import Path

import pytest

from ottla.runtime.secret_file import ExposedSecretError, read_secret_file, write_secret_file


def test_a_file_that_only_its_owner_may_read_is_read(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("süß\n", encoding="utf-8")
    file.chmod(0o600)
    assert read_secret_file(str(file)) == "süß\n"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_touch_is_refused_with_what_to_do(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "secret"
    file.write_text("hidden")
    file.chmod(mode)
    with pytest.raises(ExposedSecretError, match=f"chmod 600 {file}") as refused:
        read_secret_file(str(file))
    assert "hidden" not in str(refused.value)


def test_a_file_that_is_not_text_or_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"\xff\xfe")
    file.chmod(0o600)
    with pytest.raises(OSError, match="not UTF-8"):
        read_secret_file(str(file))
    with pytest.raises(FileNotFoundError):
        read_secret_file(str(tmp_path / "missing"))


def test_a_written_file_is_its_owners_alone_and_replaces_another_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("open to all")
    file.chmod(0o644)
    write_secret_file(file, "süß\n")
    assert read_secret_file(str(file)) == "süß\n"
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
