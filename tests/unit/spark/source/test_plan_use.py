"""A narrowed plan is good for one query."""

from pathlib import Path

import pytest

from ottla.spark.option_values import OptionError
from ottla.spark.source.plan_use import take


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    return tmp_path


def test_the_first_one_has_it_and_may_come_again(scratch: Path) -> None:
    take("plan", "query 1")
    take("plan", "query 1")
    take("another", "query 2")
    assert sorted(path.name for path in scratch.iterdir()) == ["ottla-plan-another", "ottla-plan-plan"]


def test_others_are_refused_in_words() -> None:
    take("plan", "query 1")
    with pytest.raises(OptionError, match=r"'pushFilters' can be used for one query.*Load it again"):
        take("plan", "query 2")
