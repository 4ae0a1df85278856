"""Rates of connections: of a broker, of a listener, of an address (OPS-4, KIP-612)."""

from __future__ import annotations

from ottla.security.quota.connection_rates import ConnectionRates
from ottla.security.quota.entities import ClientQuotas, plain_ip

BURST_S, WINDOW_MS = 2, 1000
HERE, THERE = "10.0.0.1", "10.0.0.2"
BY_IP: ClientQuotas = {
    (("ip", HERE),): {"connection_creation_rate": 1},
    (("ip", None),): {"connection_creation_rate": 3},
}


def rates(broker_rate: int | None = None, own: str | None = None, **listeners: int) -> ConnectionRates:
    made = ConnectionRates(BURST_S, WINDOW_MS, own)
    made.configure(broker_rate, listeners, 0)
    return made


def test_a_listener_beyond_its_rate_accepts_nothing_for_a_while() -> None:
    limited = rates(CLIENTS=5)
    for _ in range(11):
        assert limited.accept_delay_ms("CLIENTS", 0) == 0
        assert limited.connected("CLIENTS", HERE, 0) == 0
    assert limited.accept_delay_ms("CLIENTS", 0) == 201
    assert limited.accept_delay_ms("OTHERS", 0) == 0
    assert limited.accept_delay_ms("CLIENTS", 201) == 0


def test_the_brokers_rate_counts_at_every_listener_but_that_of_the_brokers() -> None:
    limited = rates(1, own="BROKERS")
    for listener in ("CLIENTS", "OTHERS", "CLIENTS", "BROKERS", "BROKERS"):
        limited.connected(listener, HERE, 0)
    assert limited.accept_delay_ms("OTHERS", 0) == WINDOW_MS, "never longer than a window"
    assert limited.accept_delay_ms("BROKERS", 0) == 0


def test_an_address_beyond_its_rate_is_closed_later_and_costs_the_listener_nothing() -> None:
    limited = rates(CLIENTS=2)
    limited.apply(BY_IP)
    assert [limited.connected("CLIENTS", HERE, 0) for _ in range(5)] == [0, 0, 1000, 1000, 1000]
    assert limited.connected("CLIENTS", f"::ffff:{HERE}", 0) == 1000, "the same address"
    assert limited.accept_delay_ms("CLIENTS", 0) == 0
    assert limited.connected("CLIENTS", THERE, 0) == 0
    assert limited.connected("CLIENTS", HERE, 1000) == 0
    limited.apply({})
    assert limited.connected("CLIENTS", HERE, 1000) == 0


def test_changed_rates_count_at_once() -> None:
    limited = rates(1)
    for _ in range(5):
        limited.connected("CLIENTS", HERE, 0)
    assert limited.accept_delay_ms("CLIENTS", 0) == WINDOW_MS
    limited.configure(30, {}, 0)
    assert limited.accept_delay_ms("CLIENTS", 0) == 101
    limited.configure(None, {}, 0)
    assert limited.accept_delay_ms("CLIENTS", 0) == 0


def test_addresses_have_one_form() -> None:
    assert plain_ip("2001:DB8::0:7") == "2001:db8::7"
    assert plain_ip("fe80::1%eth0") == "fe80::1"
    assert plain_ip("::ffff:10.0.0.1") == "10.0.0.1"
    assert plain_ip("example.org") is None
