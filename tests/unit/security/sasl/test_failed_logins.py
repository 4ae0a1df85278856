"""Failed logins by address."""

from __future__ import annotations

from ottla.security.sasl.failed_logins import FailedLogins


def test_an_address_with_too_many_failures_waits_for_the_next_minute() -> None:
    failed = FailedLogins(limit=3)
    assert [failed.count("10.0.0.1", now_ms) for now_ms in (0, 1, 2)] == [1, 2, 3]
    assert failed.are_too_many("10.0.0.1", 59_999)
    assert not failed.are_too_many("10.0.0.2", 59_999)
    assert not failed.are_too_many("10.0.0.1", 60_000)
    assert failed.count("10.0.0.1", 60_000) == 1
    assert failed.total == 4


def test_no_limit_refuses_nobody() -> None:
    failed = FailedLogins(limit=0)
    for now_ms in range(1000):
        failed.count("10.0.0.1", now_ms)
    assert not failed.are_too_many("10.0.0.1", 1000)


def test_a_storm_from_many_addresses_costs_bounded_memory() -> None:
    failed = FailedLogins(limit=1)
    for number in range(20_000):
        failed.count(f"address {number}", 0)
    assert failed.are_too_many("address 19999", 0)
    assert not failed.are_too_many("address 0", 0)
