from __future__ import annotations

import socket

import pytest

from ottla.localcluster import ports
from ottla.localcluster.ports import free_ports, port_trouble
from ottla.localcluster.state import ClusterError

HOST = "127.0.0.1"


def test_free_ports_are_different_and_can_be_listened_on() -> None:
    found = free_ports(HOST, 5)
    assert len(set(found)) == 5
    assert all(port_trouble(HOST, port) is None for port in found)
    assert free_ports(HOST, 0) == []


def test_free_ports_lie_where_the_kernel_takes_none_for_outgoing_connections() -> None:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        ephemeral = listener.getsockname()[1]
    assert all(10_000 <= port < ephemeral for port in free_ports(HOST, 20)) or ephemeral < 32768


def test_ports_that_are_spoken_for_are_left_out() -> None:
    taken = free_ports(HOST, 3)
    assert not set(free_ports(HOST, 3, taken)) & set(taken)


def test_where_there_are_too_few_ports_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "port_trouble", lambda host, port: "in use")
    with pytest.raises(ClusterError, match="not 2 free ports"):
        free_ports(HOST, 2)


def test_a_port_in_use_is_told_with_what_to_do() -> None:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert port_trouble(HOST, port) == (
            f"port {port} of {HOST} is in use: choose another with --port, or 0 for any that are free"
        )


def test_hosts_that_are_not_here_are_told() -> None:
    assert "is not known" in (port_trouble("no.such.host.invalid", 1) or "")
    assert "cannot be used" in (port_trouble("192.0.2.1", 10_000) or "")
