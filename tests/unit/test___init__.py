"""The names that a user imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ottla


@pytest.mark.parametrize(
    "name", [name for name in ottla.__all__ if name not in ("__version__", "partitioners")]
)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(ottla, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nix'"):
        _ = ottla.Nix  # type: ignore[attr-defined]


def test_importing_ottla_imports_no_client() -> None:
    program = "import ottla, sys; print([name for name in sys.modules if name.startswith('ottla.')])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_everything_public_is_listed() -> None:
    assert dir(ottla) == sorted(ottla.__all__)


def test_partitioners_are_a_module() -> None:
    assert ottla.partitioners.by_key(b"k", ottla.partitioners.TopicPartitions("t", 1, lambda: 0.0)) == 0
