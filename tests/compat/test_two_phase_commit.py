"""Two-phase commit (KIP-939) on Ottla, whole, and on Apache Kafka 4.3, which refuses the second half."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.conftest import start

import ottla
from ottla.errors import ErrorCode
from ottla.localcluster.broker_process import running
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.producer_ids import InitProducerIdRequest
from ottla.wire.connection import Connection

pytestmark = [pytest.mark.compat, pytest.mark.timeout(180)]

SETTINGS = {"transaction.two.phase.commit.enable": "true", "transaction.state.log.num.partitions": "1"}
# Kafka serves InitProducerId 6 only then.
KAFKA_SETTINGS = SETTINGS | {"unstable.api.versions.enable": "true"}
ID = "two-phase"
PASSING = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


async def error_of(port: int, *, keeps: bool) -> ErrorCode:
    """The answer to InitProducerId 6 with two-phase commit, once there is a coordinator."""
    async with await Connection.open("localhost", port) as connection, asyncio.timeout(60):
        await connection.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]), 4)
        while True:
            request = InitProducerIdRequest(ID, 60_000, enable2_pc=True, keep_prepared_txn=keeps)
            error = ErrorCode((await connection.ask(request, 6)).error_code)
            if error not in PASSING:
                return error
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("target", ["ottla", "apache"])
def test_a_transaction_without_a_timeout_is_granted_and_kept_on_ottla_alone(
    target: str, tmp_path: Path
) -> None:
    settings = SETTINGS if target == "ottla" else KAFKA_SETTINGS

    async def body(port: int) -> None:
        assert await error_of(port, keeps=False) is ErrorCode.NONE
        kept = await error_of(port, keeps=True)
        assert kept is (ErrorCode.NONE if target == "ottla" else ErrorCode.UNSUPPORTED_VERSION)
        producer = ottla.Producer(f"localhost:{port}", transactional_id=ID, two_phase_commit=True)
        if target == "ottla":
            async with producer:
                assert producer.prepared_transaction is None
            return
        with pytest.raises(ottla.TransactionError, match="brokers that keep prepared transactions"):
            async with producer:
                pass

    with running(start(target, tmp_path / "data", settings)) as process:
        asyncio.run(body(process.port))
