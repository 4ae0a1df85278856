"""Opens logs for tests and reads them back."""

from collections.abc import Sequence
from typing import Any, Final

from tests.unit.log.batches import NOW_MS

from ottla.config import TopicConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.log.writing.append import Appended
from ottla.records.batch import BatchView, iter_batches
from ottla.runtime.disk import Disk

DIRECTORY = "/data/orders-0"
# More than a log waits for a missing batch of a producer.
_ROUNDS: Final = 10


def config(**settings: Any) -> TopicConfig:
    """Kafka's defaults, but for these, and for small indexes: a simulated disk really fills what is
    preallocated.
    """
    return TopicConfig(**({"segment_index_bytes": 9600} | settings))


def open_log(
    disk: Disk,
    *,
    directory: str = DIRECTORY,
    settings: TopicConfig | None = None,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clean: bool = True,
    now_ms: int = NOW_MS,
    open_files: OpenFiles | None = None,
    high_watermark: int | None = None,
) -> Log:
    """A log in one line."""
    return Log.open(
        disk,
        directory,
        settings or config(),
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        clean=clean,
        now_ms=now_ms,
        open_files=open_files or OpenFiles(),
        high_watermark=high_watermark,
    )


def append(log: Log, *batches: bytearray, leader_epoch: int = 0, now_ms: int = NOW_MS) -> list[Appended]:
    """Append, with the patience of a producer, and insist that all went well."""
    appended = []
    for answer in _answers(log, batches, leader_epoch, now_ms):
        if isinstance(answer, KafkaError):
            raise answer
        appended.append(answer)
    return appended


def replicate(log: Log) -> None:
    """Have all replicas of the partition hold the whole log."""
    log.producers.transactions.replicated_to(log.log_end_offset)


def refusal(log: Log, data: bytearray, *, leader_epoch: int = 0, now_ms: int = NOW_MS) -> KafkaError:
    """Append, with the patience of a producer, and insist that it is refused."""
    (answer,) = _answers(log, (data,), leader_epoch, now_ms)
    assert isinstance(answer, KafkaError), answer
    return answer


def _answers(
    log: Log, batches: Sequence[bytearray], leader_epoch: int, now_ms: int
) -> list[Appended | KafkaError]:
    """The answers to batches, each of which is sent again while it waits for an earlier one."""
    answers: list[Appended | KafkaError] = []
    for _ in range(_ROUNDS):
        left = [memoryview(data) for data in batches[len(answers) :]]
        answers += log.append(left, leader_epoch=leader_epoch, now_ms=now_ms)
        waiting = [is_waiting(answer) for answer in answers]
        if True not in waiting:
            return answers
        del answers[waiting.index(True) :]
    raise AssertionError(f"after {_ROUNDS} rounds the log still waits for an earlier batch")


def is_waiting(answer: Appended | KafkaError) -> bool:
    """Whether a batch is to be sent again: it may be that an earlier one comes first."""
    return isinstance(answer, KafkaError) and answer.code == ErrorCode.NOT_ENOUGH_REPLICAS


def read_all(log: Log, *, max_bytes: int = 1 << 20, from_offset: int | None = None) -> list[BatchView]:
    """Every batch a consumer gets that starts at the log's start."""
    offset = log.log_start_offset if from_offset is None else from_offset
    end = log.log_end_offset
    batches: list[BatchView] = []
    while (found := log.read(offset, max_bytes, upper_offset=end, at_least_one=True)) is not None:
        data = found.file.read(found.position, found.size)
        assert len(data) == found.size
        batches.extend(iter_batches(data))
        assert found.next_offset > offset
        offset = found.next_offset
    return batches


def content(log: Log) -> dict[int, bytes]:
    """The bytes of every batch by its base offset."""
    return {batch.base_offset: bytes(batch.view()) for batch in read_all(log)}
