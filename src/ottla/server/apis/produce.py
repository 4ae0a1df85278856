"""Produce, versions 3 to 13 (0 to 2 are claimed for old librdkafka and refused: KAFKA-18659).

KIP-98 idempotence and transactions, KIP-890 transactions that are verified (`produce_verification`), KIP-110 zstd from version 7, KIP-467 record errors from 8, KIP-951 the new leader from 10,
KIP-516 topic ids from 13.

The requests of one socket read are gathered and appended together, one call per partition. Most producers
send the same bytes again and again around different records; `produce_shape.py` recognises such requests
without decoding them.

While the transactions of a read are verified, or a schema that its records name is looked for (`schema.validation`),
the reads after it wait: a producer's batches are appended in the order in which they came. Requests to topics that
check schemas have no remembered shape.

When an append is acknowledged, and with which error if it is not, partitions/acknowledgement.py says.
"""

import asyncio
from functools import partial
from typing import NamedTuple

from ottla.controller.image import INTERNAL_TOPICS
from ottla.errors import ErrorCode, KafkaError
from ottla.log.batch_validation import RefusedRecordsError
from ottla.log.writing.append import Appended
from ottla.model import ACKS_ALL, ACKS_LEADER
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import first_version
from ottla.protocol.frame import RequestHeader, response_frame
from ottla.protocol.messages.produce import (
    ZSTD_SINCE,
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.records.compression import Compression
from ottla.records.header import CODEC_MASK
from ottla.security.acl.checks import CHECKS
from ottla.server.answers.send_queue import Part
from ottla.server.apis.leader_hints import MISDIRECTED, addresses, current_leader
from ottla.server.apis.produce_shape import ProduceShape, ProduceShapes, learn_shape
from ottla.server.apis.produce_verification import (
    ATTRIBUTES_LOW_BYTE,
    Claim,
    Verifier,
    claim_of,
    has_transaction,
    is_transactional,
    refusal_of,
)
from ottla.server.gate.basis import basis_of
from ottla.server.gate.handlers import Answer, ApiFamily, RequestContext, UnanswerableError
from ottla.server.gate.rights import Rights
from ottla.server.gate.services import Services
from ottla.server.gate.session import Session
from ottla.server.partitions.acknowledgement import Acknowledgements, Failures
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.schemas.schemas_topic import SchemaChecks, schemas_demanded

api = ApiFamily()

_TOPIC_IDS_SINCE = first_version(TopicProduceData, "topic_id")
_LEADER_HINTS_SINCE = first_version(PartitionProduceResponse, "current_leader")
_VALID_ACKS = (-1, 0, 1)
_IN_TRANSACTION, _TO_TOPIC = CHECKS[ApiKey.PRODUCE]
# As in Kafka: a client of this name means it, and may repair an internal topic.
_ADMIN_CLIENT_ID = "__admin_client"

Outcome = Appended | KafkaError
Outcomes = dict[HostedPartition, list[Outcome]]


class _Placement:
    """Where one partition of a decoded request went: a place in a partition's list, or an error at the
    door.
    """

    __slots__ = ("error", "index", "partition", "place")

    def __init__(self, index: int, partition: HostedPartition | None, place: int, error: KafkaError | None):
        self.index = index
        self.partition = partition
        self.place = place
        self.error = error


class _Decoded:
    """A request that was read by the compiled codec, and where its records went."""

    __slots__ = ("acks", "request", "timeout_ms", "topics", "version")

    def __init__(self, version: int, request: ProduceRequest) -> None:
        self.version = version
        self.request = request
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.topics: list[tuple[TopicProduceData, list[_Placement]]] = []

    @property
    def only_partition(self) -> HostedPartition | None:
        """The partition of a request that names one partition, and is not refused there."""
        if len(self.topics) != 1 or len(self.topics[0][1]) != 1:
            return None
        return self.topics[0][1][0].partition


# A request of a known shape needs its correlation id, the shape and its place in the partition's list, no
# more.
_Entry = tuple[int, ProduceShape | _Decoded, int]


class _Gathered(NamedTuple):
    """The requests of one read, the record sets for each partition, the strictest acks, what has to be asked first."""

    entries: list[_Entry]
    staged: dict[HostedPartition, list[memoryview]]
    acks: int
    throttle_ms: int
    claims: list[Claim]
    schemas: SchemaChecks


@api.gathers(ProduceRequest)
class ProduceGatherer:
    """The produce requests of one socket read: `repeats` or `add` for each, then `finish` once."""

    def __init__(self, services: Services, session: Session) -> None:
        self._services = services
        self._session = session
        # The latest shape, which nearly always comes again, and the others, all learnt on the same basis.
        self._shape: ProduceShape | None = None
        self._shapes = ProduceShapes()
        self._basis = basis_of(services, session)
        self._acknowledgements = Acknowledgements(services.flusher)
        self._entries: list[_Entry] = []
        self._staged: dict[HostedPartition, list[memoryview]] = {}
        self._verifier = Verifier(services)
        self._claims: list[Claim] = []
        self._schemas: SchemaChecks = {}
        # The verification that the next read has to wait for; None in front of nearly every read.
        self._verifying: asyncio.Future[None] | None = None
        # The strictest acks of the read: its requests are answered together.
        self._acks = ACKS_LEADER

    @property
    def request_count(self) -> int:
        """How many requests `finish` has to answer."""
        return len(self._entries)

    def repeats(
        self, data: bytearray, view: memoryview, start: int, frame_end: int, version: int, correlation_id: int
    ) -> bool:
        """Take in the frame at `start` (its size stands there) if it has a known shape and may be
        appended.
        """
        shape = self._shape
        if shape is None:
            return False
        # Once per read: what shapes rest on changes between the turns of the loop, not within one.
        if not self._entries and self._basis_changed():
            return False
        records = shape.match(data, view, start, frame_end, version)
        if records is None:
            shape = self._shapes.find(view, start)
            if shape is None:
                return False
            records = shape.match(data, view, start, frame_end, version)
            if records is None:
                return False
            self._shape = shape
        staged = self._staged.get(shape.partition)
        if staged is None:
            staged = self._staged[shape.partition] = []
        if shape.acks == ACKS_ALL:
            self._acks = ACKS_ALL
        self._entries.append((correlation_id, shape, len(staged)))
        staged.append(records)
        return True

    def add(self, context: RequestContext, request: ProduceRequest) -> None:
        """Take in a decoded request. Records that must be refused are answered with the others, in order."""
        header = context.header
        decoded = _Decoded(header.api_version, request)
        if request.acks == ACKS_ALL:
            self._acks = ACKS_ALL
        refusal = refusal_of(request) or self._forbidden_transaction(request)
        for topic in request.topic_data:
            placements = [
                self._place(header, request, topic, data)
                if refusal is None
                else _Placement(data.index, None, 0, refusal)
                for data in topic.partition_data
            ]
            decoded.topics.append((topic, placements))
        self._entries.append((header.correlation_id, decoded, 0))

    def _forbidden_transaction(self, request: ProduceRequest) -> KafkaError | None:
        """The refusal of a transaction under an id that the session has no right to."""
        rights, transactional_id = self._services.rights, request.transactional_id
        if rights is None or transactional_id is None or not has_transaction(request):
            return None
        is_allowed = rights.permits(self._session, _IN_TRANSACTION, transactional_id)
        return None if is_allowed else KafkaError(_IN_TRANSACTION.error)

    def learn(self, frame: memoryview) -> None:
        """Recognise requests that repeat the one just added, whose frame (without its size) this is."""
        decoded = self._entries[-1][1]
        assert isinstance(decoded, _Decoded), "what was just added was decoded"
        partition = decoded.only_partition
        if partition is None or decoded.acks not in (-1, 1) or partition.checks_schemas:
            return
        shape = learn_shape(frame, decoded.version, decoded.request, partition)
        if shape is not None:
            self._basis_changed()
            self._shape = shape
            self._shapes.add(shape)

    def finish(self) -> Answer:
        """Append what was taken in; the responses, or what to wait for. Both raise UnanswerableError."""
        entries, self._entries = self._entries, []
        staged, self._staged = self._staged, {}
        acks, self._acks = self._acks, ACKS_LEADER
        quotas = self._services.quotas
        throttle_ms = quotas.produced(self._session, _size_bytes(staged)) if quotas.are_set else 0
        if self._claims or self._schemas or self._verifying is not None:
            claims, self._claims = self._claims, []
            schemas, self._schemas = self._schemas, {}
            if self._must_wait(claims, schemas):
                earlier, verified = self._verifying, asyncio.get_running_loop().create_future()
                self._verifying = verified
                gathered = _Gathered(entries, _kept(staged), acks, throttle_ms, claims, schemas)
                return self._append_verified(gathered, earlier, verified)
        now_ms, none_verified = self._services.now_ms(), self._verifier.none_verified
        outcomes: Outcomes = {}
        for partition, record_sets in staged.items():
            outcomes[partition] = partition.append(record_sets, now_ms, none_verified)
        return self._acknowledged(entries, outcomes, acks, throttle_ms)

    def _must_wait(self, claims: list[Claim], schemas: SchemaChecks) -> bool:
        """Whether a read may not be appended at once: something has to be asked, or an earlier read waits."""
        return (
            self._verifying is not None
            or bool(self._verifier.unverified(claims))
            or not all(self._services.schemas.knows(each) for each in schemas.values())
        )

    async def _append_verified(
        self,
        gathered: _Gathered,
        earlier: asyncio.Future[None] | None,
        verified: asyncio.Future[None],
    ) -> list[Part]:
        """Append once everything is known that decides, and everything that came earlier is appended."""
        try:
            if earlier is not None:
                await earlier
            entries, staged, acks, throttle_ms, claims, schemas = gathered
            unregistered = await self._services.schemas.refused(schemas) if schemas else {}
            verdict = await self._verifier.verdict([c for c in claims if c.record_set not in unregistered])
            verdict.refused.update(unregistered)
            now_ms = self._services.now_ms()
            outcomes = {
                partition: verdict.append(partition, record_sets, acks, now_ms)
                for partition, record_sets in staged.items()
            }
            answer = self._acknowledged(entries, outcomes, acks, throttle_ms)
        finally:
            if not verified.done():
                verified.set_result(None)
            if self._verifying is verified:
                self._verifying = None
        return answer if isinstance(answer, list) else await answer

    def _acknowledged(self, entries: list[_Entry], outcomes: Outcomes, acks: int, throttle_ms: int) -> Answer:
        missing = self._acknowledgements.missing(outcomes, acks)
        if not missing:
            return self._answers(entries, outcomes, throttle_ms)
        timeout_s = max(known.timeout_ms for _, known, _ in entries) / 1000
        answers = partial(self._answers_after, entries, outcomes, throttle_ms)
        return self._acknowledgements.answer(missing, acks, timeout_s, answers)

    def _basis_changed(self) -> bool:
        """Whether the shapes rest on another basis than today's; they are forgotten then."""
        basis = basis_of(self._services, self._session)
        if basis == self._basis:
            return False
        self._basis = basis
        self._shape = None
        self._shapes.clear()
        return True

    def _place(
        self,
        header: RequestHeader,
        request: ProduceRequest,
        topic: TopicProduceData,
        data: PartitionProduceData,
    ) -> _Placement:
        try:
            partition = self._partition(header, request.acks, topic, data)
            records = _checked_records(header.api_version, data.records)
            schemas = schemas_demanded(partition, records)
        except KafkaError as error:
            return _Placement(data.index, None, 0, error)
        staged = self._staged.setdefault(partition, [])
        staged.append(records)
        place = len(staged) - 1
        if is_transactional(records):
            self._claims.append(claim_of(partition, place, request, header.api_version, records))
        if schemas:
            self._schemas[partition, place] = schemas
        return _Placement(data.index, partition, place, None)

    def _partition(
        self, header: RequestHeader, acks: int, topic: TopicProduceData, data: PartitionProduceData
    ) -> HostedPartition:
        """The partition that will take these records; raises when it must not."""
        if acks not in _VALID_ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {acks}")
        if self._services.rights is not None:
            self._check_right(self._services.rights, header, topic)
        partitions = self._services.partitions
        if header.api_version >= _TOPIC_IDS_SINCE:
            partition = partitions.by_id(topic.topic_id, data.index)
        else:
            partition = partitions.by_name(topic.name, data.index)
        error = partition.append_error(acks)
        if error:
            raise KafkaError(error)
        if partition.topic in INTERNAL_TOPICS and header.client_id != _ADMIN_CLIENT_ID:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker itself writes to {partition.topic}"
            )
        return partition

    def _check_right(self, rights: Rights, header: RequestHeader, topic: TopicProduceData) -> None:
        """KafkaError unless the session may write to a topic; a topic that does not exist is refused elsewhere."""
        name = topic.name
        if header.api_version >= _TOPIC_IDS_SINCE:
            known = self._services.quorum.image.topics_by_id.get(topic.topic_id)
            if known is None:
                return
            name = known.name
        if not rights.permits(self._session, _TO_TOPIC, name):
            raise KafkaError(_TO_TOPIC.error)

    def _answers_after(
        self, entries: list[_Entry], outcomes: Outcomes, throttle_ms: int, failures: Failures
    ) -> list[Part]:
        for partition, failure in failures.items():
            results = outcomes[partition]
            results[:] = [failure if isinstance(result, Appended) else result for result in results]
        return self._answers(entries, outcomes, throttle_ms)

    def _answers(self, entries: list[_Entry], outcomes: Outcomes, throttle_ms: int) -> list[Part]:
        answers: list[Part] = []
        for correlation_id, known, place in entries:
            if isinstance(known, ProduceShape):
                outcome = outcomes[known.partition][place]
                if type(outcome) is Appended and not throttle_ms:
                    answers.append(known.response(correlation_id, outcome))
                    continue
                answers.append(self._shape_response(correlation_id, known, outcome, throttle_ms))
            elif known.acks:
                answers.append(self._decoded_response(correlation_id, known, outcomes, throttle_ms))
            else:
                _refuse_failure(known, outcomes, answers)
        return answers

    def _decoded_response(
        self, correlation_id: int, decoded: _Decoded, outcomes: Outcomes, throttle_ms: int
    ) -> bytearray:
        for _, placements in decoded.topics:
            for placement in placements:
                self._count_error(_outcome(placement, outcomes))
        responses = [
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_partition_response(p.index, _outcome(p, outcomes)) for p in placements],
            )
            for topic, placements in decoded.topics
        ]
        return self._response(correlation_id, decoded.version, responses, throttle_ms)

    def _count_error(self, outcome: Outcome) -> None:
        if isinstance(outcome, KafkaError):
            self._services.requests.of(ApiKey.PRODUCE).failed(outcome.code)

    def _shape_response(
        self, correlation_id: int, shape: ProduceShape, outcome: Outcome, throttle_ms: int
    ) -> bytearray:
        """The response that a shape cannot write: of an error, or of a session that is throttled."""
        self._count_error(outcome)
        topic = TopicProduceResponse(
            name=shape.partition.topic,
            topic_id=shape.partition.topic_id,
            partition_responses=[_partition_response(shape.partition.index, outcome)],
        )
        return self._response(correlation_id, shape.version, [topic], throttle_ms)

    def _response(
        self, correlation_id: int, version: int, responses: list[TopicProduceResponse], throttle_ms: int
    ) -> bytearray:
        response = ProduceResponse(responses=responses, throttle_time_ms=throttle_ms)
        if version >= _LEADER_HINTS_SINCE:
            self._tell_leaders(version, response)
        return response_frame(correlation_id, ApiKey.PRODUCE, version, response)

    def _tell_leaders(self, version: int, response: ProduceResponse) -> None:
        """Tell clients that asked the wrong broker which one leads (KIP-951)."""
        image, leaders = self._services.quorum.image, []
        for topic in response.responses:
            misdirected = [p for p in topic.partition_responses if p.error_code in MISDIRECTED]
            if not misdirected:
                continue
            by_id = version >= _TOPIC_IDS_SINCE
            known = image.topics_by_id.get(topic.topic_id) if by_id else image.topics_by_name.get(topic.name)
            for partition in misdirected:
                leader = current_leader(known, partition.index)
                if leader is not None:
                    partition.current_leader = LeaderIdAndEpoch(*leader)
                    leaders.append(leader.leader_id)
        listener = self._session.advertised_listener
        response.node_endpoints = [NodeEndpoint(*found) for found in addresses(image, listener, leaders)]


def _size_bytes(staged: dict[HostedPartition, list[memoryview]]) -> int:
    return sum(len(records) for record_sets in staged.values() for records in record_sets)


def _kept(staged: dict[HostedPartition, list[memoryview]]) -> dict[HostedPartition, list[memoryview]]:
    """Record sets in memory of their own: the next read overwrites the connection's."""
    return {
        partition: [memoryview(bytearray(records)) for records in record_sets]
        for partition, record_sets in staged.items()
    }


def _checked_records(version: int, records: memoryview | None) -> memoryview:
    """Records that may be appended, in memory that may be written to: the append numbers batches in place."""
    if records is None or not len(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request carries one record batch per partition")
    attributes = records[ATTRIBUTES_LOW_BYTE] if len(records) > ATTRIBUTES_LOW_BYTE else 0
    if version < ZSTD_SINCE and attributes & CODEC_MASK == Compression.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or newer")
    return memoryview(bytearray(records)) if records.readonly else records


def _refuse_failure(decoded: _Decoded, outcomes: Outcomes, answers: list[Part]) -> None:
    for topic, placements in decoded.topics:
        for placement in placements:
            outcome = _outcome(placement, outcomes)
            if isinstance(outcome, KafkaError):
                place = f"{topic.name or topic.topic_id}-{placement.index}"
                raise UnanswerableError(f"acks=0 produce to {place}: {outcome}", answers)


def _outcome(placement: _Placement, outcomes: Outcomes) -> Outcome:
    if placement.partition is None:
        assert placement.error is not None
        return placement.error
    return outcomes[placement.partition][placement.place]


def _partition_response(index: int, outcome: Outcome) -> PartitionProduceResponse:
    if isinstance(outcome, KafkaError):
        return PartitionProduceResponse(
            index=index,
            error_code=outcome.code,
            base_offset=-1,
            error_message=outcome.message,
            record_errors=[
                BatchIndexAndErrorMessage(number, reason)
                for number, reason in (outcome.records if isinstance(outcome, RefusedRecordsError) else ())
            ],
        )
    return PartitionProduceResponse(
        index=index,
        error_code=ErrorCode.NONE,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=outcome.log_start_offset,
    )
