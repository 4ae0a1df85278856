"""The names of `ottla.spark`, and the modules that it does not import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ottla.spark


def test_everything_that_it_names_is_there() -> None:
    assert sorted(ottla.spark.__all__) == ottla.spark.__all__ == dir(ottla.spark)
    for name in ottla.spark.__all__:
        assert getattr(ottla.spark, name) is not None


def test_what_it_does_not_have_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'sessions_of'"):
        _ = ottla.spark.sessions_of  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "module", ["ottla", "ottla.spark", "ottla.cli.main", "ottla.server.broker", "ottla.testing"]
)
def test_nothing_of_spark_is_imported_before_it_is_used(module: str) -> None:
    program = f"import sys, {module}; print([name for name in ('pyspark', 'pyarrow', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
