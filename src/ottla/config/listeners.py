"""Addresses in settings: where a broker listens, and where the voters of the quorum are."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from ottla.config.setting import ConfigError

MAX_VOTERS: Final = 5  # more voters make commits slower and add nothing: five survive two failures
VOTERS: Final = "controller.quorum.voters"

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


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter of the metadata quorum, and where the others reach it."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.node_id}@{host}:{self.port}"


def parse_listener(setting_name: str, text: str) -> Listener:
    """One address with a protocol."""
    match = _LISTENER.fullmatch(text.strip())
    if match is None or int(match["port"]) > _LARGEST_PORT:
        raise ConfigError(
            f"{setting_name} cannot be '{text}': it must be one address such as PLAINTEXT://localhost:9092."
        )
    if match["name"].upper() != "PLAINTEXT":
        raise ConfigError(f"{setting_name} cannot be '{text}': only PLAINTEXT listeners are supported.")
    return Listener(match["name"].upper(), match["ipv6"] or match["host"], int(match["port"]))


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
