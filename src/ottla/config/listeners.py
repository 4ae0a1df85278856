"""Addresses in settings: where a broker listens, and where the voters of the quorum are."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from ottla.config.setting import ConfigError

MAX_VOTERS: Final = 5  # more voters make commits slower and add nothing: five survive two failures
VOTERS: Final = "controller.quorum.voters"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
# The security protocols, and Kafka's numbers for them in the metadata log.
PROTOCOL_NUMBERS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

_HOST = r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\[\]:/,@\s]{empty}))"
_LISTENER = re.compile(
    r"(?P<name>[A-Za-z0-9_-]+)://" + _HOST.replace("{empty}", "*") + r":(?P<port>[0-9]{1,5})"
)
_VOTER = re.compile(r"(?P<id>[0-9]{1,10})@" + _HOST.replace("{empty}", "+") + r":(?P<port>[0-9]{1,5})")
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Listener:
    """Where a broker listens. An empty host is every interface; port 0 lets the kernel choose."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    @property
    def uses_tls(self) -> bool:
        """Whether its connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether its clients log in with SASL."""
        return self.protocol.startswith("SASL")

    def __str__(self) -> str:
        return f"{self.name}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter of the metadata quorum, and where the others reach it."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.node_id}@{host}:{self.port}"


def parse_protocols(items: Sequence[str]) -> dict[str, str]:
    """The security protocol of each listener name."""
    protocols = {}
    for item in items:
        name, _, protocol = (part.strip().upper() for part in item.partition(":"))
        if not name or protocol not in PROTOCOL_NUMBERS:
            raise ConfigError(
                f"{PROTOCOL_MAP} cannot have '{item}' in it: each item is a listener's name, a colon and one of "
                f"{', '.join(PROTOCOL_NUMBERS)}."
            )
        protocols[name] = protocol
    return protocols


def parse_listeners(setting_name: str, text: str, protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Addresses with names that are different, in the order given."""
    listeners = tuple(_parse_listener(setting_name, each, protocols) for each in text.split(","))
    names = [each.name for each in listeners]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{setting_name} names the listener {twice} twice: each has a name of its own.")
    ports = [(each.host, each.port) for each in listeners if each.port]
    if len(set(ports)) < len(ports):
        raise ConfigError(f"{setting_name} cannot be '{text}': each listener needs an address of its own.")
    return listeners


def _parse_listener(setting_name: str, text: str, protocols: Mapping[str, str]) -> Listener:
    match = _LISTENER.fullmatch(text.strip())
    if match is None or int(match["port"]) > _LARGEST_PORT:
        raise ConfigError(
            f"{setting_name} cannot be '{text}': it must be addresses such as PLAINTEXT://localhost:9092, "
            "with commas between."
        )
    name = match["name"].upper()
    if name not in protocols:
        raise ConfigError(
            f"The listener {name} has no security protocol: add it to {PROTOCOL_MAP}, for example {name}:SSL."
        )
    return Listener(name, match["ipv6"] or match["host"], int(match["port"]), protocols[name])


def parse_voter(setting_name: str, text: str) -> Voter:
    """One voter: its node id, an at sign, its address."""
    match = _VOTER.fullmatch(text)
    if match is None or not 0 < int(match["port"]) <= _LARGEST_PORT or int(match["id"]) >= 2**31:
        raise ConfigError(
            f"{setting_name} cannot have '{text}' in it: each voter is a node id and an address, "
            "for example 1@localhost:9092."
        )
    return Voter(int(match["id"]), match["ipv6"] or match["host"], int(match["port"]))


def parse_voters(texts: Sequence[str]) -> tuple[Voter, ...]:
    """The voters in the order of their ids; ConfigError if they make no quorum."""
    voters = sorted((parse_voter(VOTERS, text) for text in texts), key=lambda voter: voter.node_id)
    ids = [voter.node_id for voter in voters]
    twice = next((each for each in ids if ids.count(each) > 1), None)
    if twice is not None:
        raise ConfigError(f"{VOTERS} names node {twice} twice: each voter stands there once.")
    if len(voters) > MAX_VOTERS:
        raise ConfigError(f"{VOTERS} names {len(voters)} voters: a quorum has at most {MAX_VOTERS}.")
    return tuple(voters)


def derived_cluster_id(voters: Sequence[Voter]) -> str:
    """An id that all nodes with the same voters agree on without a word."""
    digest = sha256(",".join(map(str, voters)).encode()).digest()
    return urlsafe_b64encode(digest[:16]).decode().rstrip("=")
