"""The brokers that `bench.security` measures: with TLS and logins beside Apache Kafka, and with access control lists.

Both makes have the same certificate (an elliptic curve key, P-256), the same version of TLS, and one listener of each
kind: without anything, with TLS, and with SASL without TLS. The brokers with access control lists are Ottla's alone:
one without an authoriser, one with the two rules that the load needs, and one with 10,000 rules more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.certificates import self_signed
from bench.targets import STARTERS, Target

from ottla import Acl, Operation, Pattern, ScramPassword, succeeded
from ottla.blocking import Admin
from ottla.localcluster.broker_process import running
from ottla.localcluster.ports import HOST, free_port

USER: Final = "bench"
PASSWORD: Final = "bench-secret"
TLS_VERSION: Final = "TLSv1.3"
ACLS: Final = 10_000
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_ANYBODY: Final = "User:ANONYMOUS"
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Site:
    """A broker with its doors."""

    target: Target
    tls_port: int
    sasl_port: int
    ca_file: Path

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.target.port}"


@contextlib.contextmanager
def secured(names: Sequence[str], directory: Path) -> Iterator[list[Site]]:
    """The chosen brokers with TLS and logins, running; stopped at the end."""
    ca_file, store = self_signed(directory / "certificates")
    with contextlib.ExitStack() as stack:
        sites = []
        for name in names:
            plain, tls, sasl, controller = (free_port() for _ in range(4))
            settings = _settings(name, store, ca_file, (plain, tls, sasl, controller))
            broker = stack.enter_context(running(STARTERS[name](directory / name, settings, port=plain)))
            site = Site(Target(name, broker), tls, sasl, ca_file)
            with Admin(site.bootstrap) as admin:
                change = ScramPassword(USER, PASSWORD, "SCRAM-SHA-256")
                succeeded(admin.alter_users([change]))
            sites.append(site)
        yield sites


def _settings(name: str, store: Path, ca_file: Path, ports: tuple[int, int, int, int]) -> dict[str, str]:
    plain, tls, sasl, controller = ports
    doors = f"PLAINTEXT://{HOST}:{plain},SSL://{HOST}:{tls},SASL_PLAINTEXT://{HOST}:{sasl}"
    shared = {
        "listeners": doors,
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca_file),
        "ssl.enabled.protocols": TLS_VERSION,
    }
    if name != "apache":
        return shared
    return shared | {
        "listeners": f"{doors},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": doors,
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": _SCRAM_MODULE,
    }


# The brokers whose small requests are compared, and how many rules each has beside those of the load.
GUARDED: Final = {"open": None, "two rules": 0, f"{ACLS} rules": ACLS}


@contextlib.contextmanager
def guarded(directory: Path, count: int = ACLS) -> Iterator[dict[str, Target]]:
    """Brokers that differ in their rules only, by the names in `GUARDED`; `count` is the most rules."""
    with contextlib.ExitStack() as stack:
        found = {}
        for name, rules in GUARDED.items():
            settings = {} if rules is None else _WITH_RIGHTS
            data = directory / name.replace(" ", "-")
            broker = stack.enter_context(running(STARTERS["ottla"](data, settings)))
            if rules is not None:
                _add_rules(f"{HOST}:{broker.port}", min(rules, count))
            found[name] = Target("ottla", broker)
        yield found


_WITH_RIGHTS: Final = {"authorizer.class.name": "acl", "allow.everyone.if.no.acl.found": "true"}


def _add_rules(bootstrap: str, count: int) -> None:
    """Rights of the load's topics, and many of others: literal and prefixed, of topics, groups and users."""
    own = [
        Acl(Pattern.topic("guarded-", is_prefix=True), _ANYBODY, "*", operation)
        for operation in (Operation.ALL, Operation.WRITE)
    ]
    rules = [*own, *others(count)]
    with Admin(bootstrap) as admin:
        for first in range(0, len(rules), _AT_ONCE):
            succeeded(admin.create_acls(rules[first : first + _AT_ONCE]))


def others(count: int) -> list[Acl]:
    """Rules of a large installation: many users, topics by name and by prefix, groups."""
    return [_rule(number) for number in range(count)]


def _rule(number: int) -> Acl:
    user = f"User:user-{number % 700}"
    match number % 4:
        case 0:
            return Acl(Pattern.topic(f"orders-{number}"), user, "*", Operation.WRITE)
        case 1:
            return Acl(Pattern.topic(f"team-{number}-", is_prefix=True), user, "*", Operation.READ)
        case 2:
            return Acl(Pattern.group(f"group-{number}"), user, "*", Operation.READ)
        case _:
            return Acl(
                Pattern.topic("guarded-", is_prefix=True), f"User:reader-{number}", "*", Operation.READ
            )
