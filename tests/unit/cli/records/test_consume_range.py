from __future__ import annotations

import pytest

from ottla.cli.records.consume_range import Start, Until, parse_start, parse_until


def test_starts_as_people_write_them() -> None:
    assert parse_start("earliest") == Start("earliest")
    assert parse_start("latest") == Start("latest")
    assert parse_start("42") == Start(offset=42)
    assert parse_start("1970-01-01T00:00:01Z") == Start(time_ms=1_000)
    assert [parse_start(each).is_exact for each in ("latest", "42")] == [False, True]


def test_ends_as_people_write_them() -> None:
    assert parse_until("end") == Until()
    assert parse_until("42") == Until(offset=42)
    past, ahead = parse_until("1970-01-01T00:00:01Z"), parse_until("2970-01-01")
    assert (past, past.is_still_coming(), ahead.is_still_coming()) == (Until(time_ms=1_000), False, True)


@pytest.mark.parametrize("text", ["", "soon", "-1", str(2**63)])
def test_what_is_neither_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="--from: neither earliest nor latest nor an offset"):
        parse_start(text)
    with pytest.raises(ValueError, match="--until: neither end nor an offset"):
        parse_until(text)
