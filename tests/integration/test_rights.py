"""Rights on a running broker: every check of the table, asked with no right, with each single right, with all
rights but one, and with all; rights that go while requests of the same shape are under way; the APIs that change
rights.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from tests.integration.checked_requests import WALK, Asked, all_requests
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import (
    Peer,
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    produce_request,
    values_of,
)
from tests.integration.transactional_peer import open_transaction, transactional

from ottla.errors import ErrorCode
from ottla.protocol.apis import DECLARED_APIS, ApiKey
from ottla.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.producer_ids import InitProducerIdRequest
from ottla.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    TransactionToEnd,
)
from ottla.security.acl.authoriser import implies
from ottla.security.acl.checks import CHECKS, UNCHECKED, Check, Refusal, Right
from ottla.security.acl.rules import (
    AUTHORIZATION_ERRORS,
    CLUSTER_NAME,
    OPERATIONS,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

DEADLINE_S = 30.0
# Callers who did not log in have no delegation tokens: test_delegation_tokens.py walks over these checks.
WALKED_BY_USERS = {ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN}
ANYBODY = "User:ANONYMOUS"
ADMINISTRATOR_HOST, CALLER_HOST = "127.0.0.1", "127.0.0.2"
WALKED = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)
RIGHTS = [
    *(Right(operation, kind) for kind in WALKED for operation in OPERATIONS[kind]),
    # No tool offers this one, but Kafka asks for it when topics are deleted.
    Right(Operation.DELETE, ResourceType.CLUSTER),
]
SETTINGS = {
    "authorizer.class.name": "acl",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.two.phase.commit.enable": "true",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """A broker where one host may do everything, and nobody else may do anything yet."""
    with broker_thread(tmp_path_factory.mktemp("rights") / "data", SETTINGS) as broker:
        submit(
            broker,
            CreateAclsRequest([granted(ADMINISTRATOR_HOST, Right(Operation.ALL, kind)) for kind in WALKED]),
        )
        yield broker


@pytest.fixture(scope="module")
def administrator(guarded: BrokerThread) -> Iterator[Peer]:
    with Peer(guarded.port, source=ADMINISTRATOR_HOST) as peer:
        yield peer


@pytest.fixture
def caller(guarded: BrokerThread) -> Iterator[Peer]:
    with Peer(guarded.port, source=CALLER_HOST) as peer:
        yield peer


def submit(broker: BrokerThread, request: Any) -> None:
    """Change rights without asking for the right to."""
    task = broker.call(lambda: broker.broker.quorum.submit_soon(request))
    deadline = time.monotonic() + DEADLINE_S
    while not task.done():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    task.result()


def granted(host: str, right: Right, name: str = WALK) -> AclCreation:
    is_cluster = right.resource_type is ResourceType.CLUSTER
    everything = host == ADMINISTRATOR_HOST
    return AclCreation(
        resource_type=right.resource_type,
        resource_name=CLUSTER_NAME if is_cluster else "*" if everything else name,
        resource_pattern_type=PatternType.LITERAL if is_cluster or everything else PatternType.PREFIXED,
        principal=ANYBODY,
        host=host,
        operation=right.operation,
        permission_type=Permission.ALLOW,
    )


def grant(administrator: Peer, *rights: Right, name: str = WALK) -> None:
    """The caller has these rights from now on, and no others."""
    everything = DeleteAclsFilter(1, None, 1, None, CALLER_HOST, 1, 1)
    removed = administrator.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([everything]))
    assert not removed.filter_results[0].error_code
    creations = [granted(CALLER_HOST, right, name) for right in rights]
    if creations:
        created = administrator.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(creations))
        assert not any(result.error_code for result in created.results)


@pytest.fixture(scope="module")
def walked(administrator: Peer) -> None:
    """The topic, group and transaction that requests are about."""
    create_topic(administrator, WALK)
    deadline = time.monotonic() + DEADLINE_S
    for key_type in (0, 1):
        # The first question has the coordinators' topics created.
        found = FindCoordinatorRequest(WALK, key_type)
        while administrator.ask(ApiKey.FIND_COORDINATOR, 3, found).error_code:
            assert time.monotonic() < deadline
    asked = InitProducerIdRequest(WALK, 600_000)
    while (made := administrator.ask(ApiKey.INIT_PRODUCER_ID, 3, asked)).error_code:
        assert time.monotonic() < deadline, made
    joined = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=WALK,
        v3_and_below_producer_id=made.producer_id,
        v3_and_below_producer_epoch=made.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(WALK, [0])],
    )
    answer = administrator.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, joined)
    assert not answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    partition = OffsetCommitRequestPartition(0, 0)
    commit = OffsetCommitRequest(WALK, topics=[OffsetCommitRequestTopic(WALK, partitions=[partition])])
    while administrator.ask(ApiKey.OFFSET_COMMIT, 8, commit).topics[0].partitions[0].error_code:
        assert time.monotonic() < deadline


def errors_in(answer: Any) -> set[int]:
    """Every error code in an answer."""
    if isinstance(answer, list):
        return {code for item in answer for code in errors_in(item)}
    if not is_dataclass(answer):
        return set()
    found: set[int] = set()
    for item in fields(answer):
        value = getattr(answer, item.name)
        found |= {value} if item.name.endswith("error_code") else errors_in(value)
    return found - {0}


def is_satisfied(check: Check, rights: Iterable[Right]) -> bool:
    return any(
        wanted.resource_type is has.resource_type and implies(has.operation, wanted.operation)
        for wanted in check.rights
        for has in rights
    )


def missing_check(asked: Asked, rights: Iterable[Right]) -> Check | None:
    """The first check that a request does not pass with these rights."""
    checks = [CHECKS[asked.api][place] for place in asked.checks]
    return next((check for check in checks if not is_satisfied(check, rights)), None)


def complaint(asked: Asked, rights: list[Right], answer: Any) -> str | None:
    """What is wrong with an answer, given the rights of the caller."""
    check = missing_check(asked, rights)
    refusals = errors_in(answer) & set(AUTHORIZATION_ERRORS.values())
    if check is None or check.refusal is Refusal.HIDDEN or asked.masked:
        expected: set[ErrorCode] = set()
    else:
        expected = {check.error}
    if refusals != expected:
        return f"{asked}: {refusals} is not {expected} in {answer}"
    text = repr(answer)
    if asked.shown and (asked.shown in text) is not (check is None):
        return f"{asked}: {asked.shown} in {answer}"
    if asked.masked and (asked.masked in text) is (check is None):
        return f"{asked}: {asked.masked} in {answer}"
    return None


def walk(caller: Peer, rights: list[Right], numbers: Iterator[int]) -> list[str]:
    found = []
    for asked in all_requests():
        answer = caller.ask(asked.api, asked.version, asked.request(next(numbers)))
        wrong = complaint(asked, rights, answer)
        if wrong is not None:
            found.append(wrong)
    return found


NUMBERS = itertools.count()


def test_without_rights_every_check_refuses(administrator: Peer, caller: Peer, walked: None) -> None:
    grant(administrator)
    assert walk(caller, [], NUMBERS) == []


def test_each_single_right_opens_what_the_table_says_and_nothing_else(
    administrator: Peer, caller: Peer, walked: None
) -> None:
    for right in RIGHTS:
        grant(administrator, right)
        assert (right, walk(caller, [right], NUMBERS)) == (right, [])


def test_with_all_rights_but_one_only_its_checks_refuse(
    administrator: Peer, caller: Peer, walked: None
) -> None:
    for left_out in RIGHTS:
        rest = [right for right in RIGHTS if right != left_out]
        grant(administrator, *rest)
        assert (left_out, walk(caller, rest, NUMBERS)) == (left_out, [])


def test_with_all_rights_nothing_is_refused(administrator: Peer, caller: Peer, walked: None) -> None:
    grant(administrator, *RIGHTS)
    assert walk(caller, RIGHTS, NUMBERS) == []


def test_the_requests_reach_every_check_of_every_served_api() -> None:
    reached = {(asked.api, place) for asked in all_requests() for place in asked.checks}
    checked = {ApiKey(key) for key in DECLARED_APIS} - UNCHECKED - WALKED_BY_USERS
    assert {(api, place) for api in checked for place in range(len(CHECKS[api]))} == reached


READ = Right(Operation.READ, ResourceType.TOPIC)
WRITE = Right(Operation.WRITE, ResourceType.TOPIC)
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_remembered_produce_request_is_forgotten_when_its_right_goes(
    administrator: Peer, caller: Peer
) -> None:
    create_topic(administrator, "walk-revoked")
    grant(administrator, WRITE)
    for number in range(5):
        assert not produce(caller, "walk-revoked", batch(b"%d" % number)).error_code
    grant(administrator, READ)
    assert produce(caller, "walk-revoked", batch(b"5")).error_code == REFUSED
    grant(administrator, WRITE)
    assert produce(caller, "walk-revoked", batch(b"6")).base_offset == 5


def test_no_request_of_a_stream_is_taken_after_its_right_went(administrator: Peer, caller: Peer) -> None:
    create_topic(administrator, "walk-stream")
    grant(administrator, WRITE)
    in_flight = 50
    request = caller.frame(
        ApiKey.PRODUCE, 9, produce_request("walk-stream", batch(b"x"), acks=1), client_id="peer"
    )
    caller.socket.sendall(request * in_flight)
    grant(administrator)
    # Everything that is sent from now on is refused.
    caller.socket.sendall(request * in_flight)
    answers = [caller.receive(ApiKey.PRODUCE, 9)[1] for _ in range(2 * in_flight)]
    errors = [answer.responses[0].partition_responses[0].error_code for answer in answers]
    assert errors[in_flight:] == [REFUSED] * in_flight
    written = errors.count(0)
    assert errors == [0] * written + [REFUSED] * (2 * in_flight - written)
    assert len(values_of(fetch(administrator, "walk-stream"))) == written


def test_records_of_a_transaction_do_not_pass_by_a_remembered_request_without_one(
    guarded: BrokerThread, administrator: Peer, caller: Peer
) -> None:
    create_topic(administrator, "walk-transaction")
    open_transaction(guarded, "walk-transaction", producer_id=4242)
    grant(administrator, WRITE)
    for number in range(3):
        assert not produce(caller, "walk-transaction", batch(b"%d" % number)).error_code
    # Somebody else's transaction: the caller has no right to any transactional id.
    foreign = transactional(b"foreign", producer_id=4242, sequence=1)
    refused = produce(caller, "walk-transaction", foreign)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_fetch_session_and_a_waiting_fetch_notice_that_a_right_went(
    administrator: Peer, caller: Peer
) -> None:
    create_topic(administrator, "walk-session")
    grant(administrator, READ)
    opened = caller.ask(ApiKey.FETCH, 12, fetch_request(("walk-session", 0, 0), session_epoch=0))
    assert opened.session_id
    # The fetch waits for a record; when it comes, the right is gone.
    waiting = fetch_request([], session_id=opened.session_id, session_epoch=1, max_wait_ms=30_000)
    caller.send(ApiKey.FETCH, 12, waiting)
    grant(administrator)
    assert not produce(administrator, "walk-session", batch(b"secret")).error_code
    _, answer = caller.receive(ApiKey.FETCH, 12)
    (refused,) = answer.responses[0].partitions
    assert (refused.error_code, values_of(refused)) == (REFUSED, [])
    grant(administrator, READ)
    again = fetch_request([], session_id=opened.session_id, session_epoch=2)
    (found,) = caller.ask(ApiKey.FETCH, 12, again).responses[0].partitions
    assert values_of(found) == [b"secret"]


def test_transactions_are_committed_together_by_those_who_have_the_right_on_each(
    administrator: Peer, caller: Peer
) -> None:
    grant(administrator, Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID))

    def ended(*names: str) -> ErrorCode:
        named = [TransactionToEnd(name, 1, 0) for name in names]
        request = EndTxnRequest("", -1, -1, True, ottla_transactions=named)
        return ErrorCode(caller.ask(ApiKey.END_TXN, 5, request).error_code)

    assert ended(f"{WALK}-1", "strange") == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert ended(f"{WALK}-1", f"{WALK}-2") == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_acks_0_without_a_right_closes_the_connection(administrator: Peer, caller: Peer) -> None:
    create_topic(administrator, "walk-silent")
    grant(administrator)
    caller.send(ApiKey.PRODUCE, 9, produce_request("walk-silent", batch(b"x"), acks=0))
    assert caller.is_closed()


def test_rights_are_described_by_resource_and_survive_a_restart(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = tmp_path_factory.mktemp("restart") / "data"
    settings = {**SETTINGS, "super.users": "User:root;User:ANONYMOUS"}
    everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    with broker_thread(data, settings) as broker, Peer(broker.port) as peer:
        creations = [granted(CALLER_HOST, right) for right in (READ, WRITE, READ)]
        assert [
            result.error_code
            for result in peer.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(creations)).results
        ] == [0, 0, 0]
        before = peer.ask(ApiKey.DESCRIBE_ACLS, 3, everything)
    with broker_thread(data, settings) as broker, Peer(broker.port) as peer:
        after = peer.ask(ApiKey.DESCRIBE_ACLS, 3, everything)
    assert after == before
    (resource,) = after.resources
    assert (resource.resource_name, len(resource.acls)) == (WALK, 2)


def test_a_broker_without_an_authoriser_has_no_rights_to_change(peer: Peer) -> None:
    described = peer.ask(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(1, None, 1, None, None, 1, 1))
    created = peer.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest([granted(CALLER_HOST, READ)]))
    deleted = peer.ask(
        ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)])
    )
    errors = described.error_code, created.results[0].error_code, deleted.filter_results[0].error_code
    assert errors == (ErrorCode.SECURITY_DISABLED,) * 3
