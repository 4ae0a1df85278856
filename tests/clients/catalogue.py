"""The client families, and how tests are generated for those that can do a thing.

`families(ability)` parametrises a test over every family with that ability; `family_codecs()` over every
family and each codec it has. Families from PyPI run in `make test`; those that need npm, Maven, Go or apt
carry the `compat` mark and run in `make compat`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.clients.families import (
    aiokafka_family,
    confluent_family,
    kafka_python_family,
    kcat_family,
    ottla_family,
)
from tests.clients.families.aiokafka_family import AiokafkaClient
from tests.clients.families.confluent_family import ConfluentClient
from tests.clients.families.driver_family import Driver, DriverClient
from tests.clients.families.kafka_python_family import KafkaPythonClient
from tests.clients.families.kcat_family import KcatClient
from tests.clients.families.ottla_family import OttlaClient
from tests.clients.model import CODECS, Ability, Client, Codec
from tests.compat.foreign_clients import franz_driver, java_driver, kafkajs_driver, kcat


@dataclass(frozen=True, slots=True)
class Family:
    """A client library: what it can do, whether PyPI is enough for it, and how to connect it."""

    name: str
    codecs: tuple[Codec, ...]
    abilities: frozenset[Ability]
    connect: Callable[[str], Client]
    from_pypi: bool = False


class Programs:
    """The programs behind foreign clients: each started when first asked for, all stopped at the end."""

    def __init__(self) -> None:
        self._drivers: dict[str, Driver] = {}

    def connect(self, name: str, bootstrap: str) -> Client:
        start = {"kafkajs": kafkajs_driver, "java": java_driver, "franz-go": franz_driver}[name]
        if name not in self._drivers:
            self._drivers[name] = start()
        return DriverClient(self._drivers[name], bootstrap)

    def close(self) -> None:
        for driver in self._drivers.values():
            driver.close()
        self._drivers.clear()


PROGRAMS = Programs()

KAFKAJS_ABILITIES: frozenset[Ability] = frozenset(
    {
        "admin",
        "alter_configs",
        "config_errors",
        "delete_records",
        "list_offsets",
        "describe_cluster",
        "idempotence",
        "timestamps",
        "out_of_range_error",
    }
)
JAVA_ABILITIES: frozenset[Ability] = frozenset(
    {
        "admin",
        "incremental_alter_configs",
        "config_errors",
        "delete_records",
        "list_offsets",
        "max_timestamp",
        "describe_cluster",
        "log_dirs",
        "idempotence",
        "timestamps",
        "null_headers",
        "out_of_range_error",
    }
)
FRANZ_ABILITIES: frozenset[Ability] = JAVA_ABILITIES | {"alter_configs"}

FAMILIES = (
    Family("confluent", confluent_family.SUPPORTED_CODECS, confluent_family.ABILITIES, ConfluentClient, True),
    Family("aiokafka", aiokafka_family.SUPPORTED_CODECS, aiokafka_family.ABILITIES, AiokafkaClient, True),
    Family(
        "kafka-python",
        kafka_python_family.SUPPORTED_CODECS,
        kafka_python_family.ABILITIES,
        KafkaPythonClient,
        True,
    ),
    Family("ottla", ottla_family.SUPPORTED_CODECS, ottla_family.ABILITIES, OttlaClient, True),
    Family(
        "kcat", kcat_family.SUPPORTED_CODECS, kcat_family.ABILITIES, lambda where: KcatClient(kcat(), where)
    ),
    Family(
        "kafkajs",
        ("none", "gzip", "snappy"),
        KAFKAJS_ABILITIES,
        lambda where: PROGRAMS.connect("kafkajs", where),
    ),
    Family("java", CODECS, JAVA_ABILITIES, lambda where: PROGRAMS.connect("java", where)),
    Family("franz-go", CODECS, FRANZ_ABILITIES, lambda where: PROGRAMS.connect("franz-go", where)),
)


def _marks(family: Family) -> tuple[pytest.MarkDecorator, ...]:
    return () if family.from_pypi else (pytest.mark.compat,)


def families(*needed: Ability) -> pytest.MarkDecorator:
    """Run the test for each family that has all of these abilities."""
    able = [family for family in FAMILIES if family.abilities.issuperset(needed)]
    return pytest.mark.parametrize("family", [pytest.param(f, id=f.name, marks=_marks(f)) for f in able])


def family_codecs() -> pytest.MarkDecorator:
    """Run the test for each family and each codec that it has."""
    pairs = [(family, codec) for family in FAMILIES for codec in family.codecs]
    return pytest.mark.parametrize(
        ("family", "codec"),
        [pytest.param(f, codec, id=f"{f.name}-{codec}", marks=_marks(f)) for f, codec in pairs],
    )
