"""The data directory of a broker: its lock, identity, checkpoints and mark of a clean stop.

    .lock                              locked while a process uses the directory; contains its pid
    meta.properties                    which cluster and node these files belong to
    *-offset-checkpoint                recovery points, log start offsets, high watermarks, cleaner offsets
    .kafka_cleanshutdown               exists only after a clean stop, while no process uses the directory
    <topic>-<partition>/               a log; suffix -delete: deleted; suffix -stray: of an unknown topic

A checkpoint that cannot be read counts as empty: a recovery point of 0 only means that more is scanned.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from ottla.config import TopicConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.log.closing import close_together
from ottla.log.files.checkpoint import CheckpointError, read_offsets, write_offsets
from ottla.log.files.file_names import LOG, PARTITION_METADATA
from ottla.log.files.open_files import OpenFiles
from ottla.log.files.uuids import parse_uuid, uuid_text
from ottla.log.log import Log
from ottla.log.writing.deletion import DeletedLog, delete_directory
from ottla.model import NO_BROKER_EPOCH, TopicPartition
from ottla.runtime.disk import Disk, Lock, is_out_of_room
from ottla.runtime.threads import Lock as Mutex
from ottla.runtime.threads import RunAll, run_one_by_one

logger = logging.getLogger(__name__)

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"
BOOT_ID: Final = "machine-boot-id"
_FORMER_IDS: Final = "ottla.former.directory.ids"
LOCK: Final = ".lock"
_PROBE: Final = ".room"
# Room for less is used up by the next few requests.
_PROBE_BYTES: Final = 1 << 20

_PARTITION_DIRECTORY: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d+)")
# A log that is being flushed holds a descriptor.
_CLOSED_TOGETHER: Final = 256
_DOOMED: Final = "-delete"
_STRAY: Final = "-stray"

# With an index entry for every 4 KiB a segment ends after 32 MiB at the latest: more than lies between two
# snapshots.
_METADATA_CONFIG: Final = TopicConfig(segment_index_bytes=64 << 10)


class LogDirectory:
    """The logs of one broker on one disk."""

    def __init__(self, disk: Disk, path: str, open_files: OpenFiles) -> None:
        self.path = path
        self.cluster_id = ""
        self.directory_id = UUID(int=0)
        self._former_ids: tuple[UUID, ...] = ()
        self._is_new = False
        self.was_closed_cleanly = False
        self.previous_broker_epoch = NO_BROKER_EPOCH
        self._disk = disk
        self._open_files = open_files
        self._lock: Lock | None = None
        self._logs: dict[TopicPartition, Log] = {}
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_start_offsets: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._checkpointed: set[TopicPartition] = set()
        self._cleaner_offsets: dict[TopicPartition, int] = {}
        self._cleaner_lock = Mutex()
        self._on_failure: Callable[[bool], None] | None = None

    def open(self, node_id: int, new_uuid: Callable[[], UUID], cluster_id: str | None = None) -> None:
        """Lock the directory and read its checkpoints. KafkaError if it is locked or another node's.

        A new directory gets `cluster_id`, or a random id; an existing one keeps its id.
        """
        self._disk.mkdir(self.path)
        lock = self._disk.lock(self._file(LOCK))
        try:
            self._read_in(node_id, new_uuid, cluster_id)
        except BaseException:
            lock.release()
            raise
        self._lock = lock

    def _read_in(self, node_id: int, new_uuid: Callable[[], UUID], cluster_id: str | None) -> None:
        self._identify(node_id, new_uuid, cluster_id)
        self._recovery_points = self._checkpoint(RECOVERY_POINTS)
        self._log_start_offsets = self._checkpoint(LOG_START_OFFSETS)
        self._high_watermarks = self._checkpoint(HIGH_WATERMARKS)
        self._cleaner_offsets = self._checkpoint(CLEANER_OFFSETS)
        self._checkpointed = {*self._recovery_points, *self._log_start_offsets, *self._high_watermarks}
        self._take_clean_mark()
        self._remove_doomed()

    def partition_names(self) -> list[str]:
        """The names of the directories that contain a log."""
        return sorted(
            entry.name
            for entry in self._disk.list(self.path)
            if entry.is_directory and _PARTITION_DIRECTORY.fullmatch(entry.name)
        )

    @property
    def directory_ids(self) -> tuple[UUID, ...]:
        """The id of the directory, and the ids under which its logs were written before `renew_id`."""
        return (self.directory_id, *self._former_ids)

    def renew_id(self, node_id: int, directory_id: UUID) -> None:
        """Give the directory another id, durably: to other voters it is then another directory.

        The logs in it are those that were written under the former id, which is kept for that.
        """
        if not self._is_new:
            self._former_ids = self.directory_ids
        self.directory_id = directory_id
        self._write_identity(node_id)

    def keeps_writes_of(self, boot_id: str) -> bool:
        """Whether nothing is lost of what was written here when `note_boot` was called, and since.

        A process that is killed loses nothing as long as the machine runs; a machine that loses power loses
        what was not flushed. `boot_id` is empty where the machine does not tell.
        """
        path = self._file(BOOT_ID)
        return bool(boot_id) and self._disk.exists(path) and self._disk.read(path).decode() == boot_id

    def note_boot(self, boot_id: str) -> None:
        """From now on the cluster counts on the directory as it is: note, durably, when that began."""
        if not boot_id:
            self._withdraw_boot()
        elif not self.keeps_writes_of(boot_id):
            self._disk.write_atomically(self._file(BOOT_ID), boot_id.encode())

    def when_failing(self, watcher: Callable[[bool], None]) -> None:
        """Have a watcher called, in any thread, when a log cannot be written: whether room is all that lacks."""
        self._on_failure = watcher

    def note_failure(self, problem: OSError) -> None:
        """A write to this directory failed."""
        if self._on_failure is not None:
            self._on_failure(is_out_of_room(problem))

    def has_room(self) -> bool:
        """Whether a file of some size can be written now. It takes as long as the disk does."""
        path = self._file(_PROBE)
        try:
            self._disk.write_atomically(path, bytes(_PROBE_BYTES))
            self._disk.remove(path)
        except OSError:
            return False
        return True

    def _log_refused(self) -> None:
        self._withdraw_boot()
        if self._on_failure is not None:
            self._on_failure(False)

    def _withdraw_boot(self) -> None:
        """A write or fsync failed: what the disk holds is unknown, also to the next start in the same
        boot.
        """
        try:
            if self._disk.exists(self._file(BOOT_ID)):
                self._disk.remove(self._file(BOOT_ID))
                self._disk.sync_directory(self.path)
        except OSError as problem:
            logger.error("%s cannot be removed: %s", self._file(BOOT_ID), problem)

    def recovery_point(self, topic: str, partition: int) -> int:
        """The offset up to which a log was durable when the directory was opened; 0 if that is unknown."""
        return self._recovery_points.get(TopicPartition(topic, partition), 0)

    def high_watermark(self, topic: str, partition: int) -> int:
        """The high watermark in the last checkpoint; 0 if that is unknown."""
        return self._high_watermarks.get(TopicPartition(topic, partition), 0)

    def open_log(self, topic: str, partition: int, topic_id: UUID, config: TopicConfig, now_ms: int) -> Log:
        """Open a partition's log, or create it.

        The log of another topic with the same name is moved aside.
        """
        key = TopicPartition(topic, partition)
        found = self.topic_id_of(f"{topic}-{partition}")
        is_known = self._disk.exists(self._file(f"{topic}-{partition}")) and self._keep(key, found, topic_id)
        if not is_known:
            self._forget(key)
        log = self._open_log(key, config, now_ms)
        if not is_known or found is None:
            # The first flush of the log makes the file durable: a topic of thousands of partitions is created
            # without waiting for the disk.
            text = f"version: 0\ntopic_id: {uuid_text(topic_id)}\n"
            self._disk.write_atomically(f"{log.directory}/{PARTITION_METADATA}", text.encode(), sync=False)
        return log

    def _keep(self, key: TopicPartition, found: UUID | None, topic_id: UUID) -> bool:
        """Whether an existing directory, of the topic `found`, is this topic's; if not, it is moved aside."""
        name = f"{key.topic}-{key.partition}"
        if found in (topic_id, UUID(int=0)):
            return True
        if found is None and (
            self.was_closed_cleanly or self._recovery_points.get(key) or self._is_empty(name)
        ):
            return True
        # A crash can take the topic id of a log that was never flushed: its records may be another topic's.
        aside = self._stray_name(f"{name}.{found.hex if found is not None else 'unknown'}")
        owner = uuid_text(found) if found is not None else "which is not known"
        logger.error("%s belongs to another topic, %s; it is kept as %s", name, owner, aside)
        self._disk.rename(self._file(name), aside)
        self._disk.sync_directory(self.path)
        return False

    def _stray_name(self, name: str) -> str:
        number = 1
        path = self._file(f"{name}{_STRAY}")
        while self._disk.exists(path):
            number += 1
            path = self._file(f"{name}.{number}{_STRAY}")
        return path

    def _is_empty(self, name: str) -> bool:
        return not any(entry.size for entry in self._disk.list(self._file(name)) if entry.name.endswith(LOG))

    def topic_id_of(self, name: str) -> UUID | None:
        """The topic id in a log directory's metadata file; None if there is none."""
        metadata = f"{self._file(name)}/{PARTITION_METADATA}"
        return _topic_id_in(self._disk.read(metadata)) if self._disk.exists(metadata) else None

    def begin_delete(self, name: str) -> DeletedLog:
        """Rename a log directory that is not open, in one step; `DeletedLog.run` removes the files."""
        topic, _, partition = name.rpartition("-")
        log = self._logs.get(TopicPartition(topic, int(partition)))
        if log is not None and not log.status.is_closed:
            raise ValueError(f"{name} is open: its log deletes itself")
        return delete_directory(self._disk, self._file(name))

    def open_metadata_log(self, topic: str, now_ms: int) -> Log:
        """Open the log of the cluster's metadata: partition 0 of its topic, with default settings."""
        return self._open_log(TopicPartition(topic, 0), _METADATA_CONFIG, now_ms)

    def checkpoint(
        self,
        *,
        recovery_points: Mapping[TopicPartition, int],
        log_start_offsets: Mapping[TopicPartition, int],
        high_watermarks: Mapping[TopicPartition, int],
    ) -> None:
        """Write the checkpoints of recovery points, log start offsets and high watermarks."""
        own = {
            key: log.durability.flushed_offset for key, log in self._logs.items() if not log.status.is_deleted
        }
        self._checkpointed = {*own, *recovery_points, *log_start_offsets, *high_watermarks}
        write_offsets(self._disk, self._file(RECOVERY_POINTS), own | dict(recovery_points))
        write_offsets(self._disk, self._file(LOG_START_OFFSETS), log_start_offsets)
        write_offsets(self._disk, self._file(HIGH_WATERMARKS), high_watermarks)

    def lower_checkpoints(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Lower the checkpoints to these offsets, before logs are truncated there.

        A checkpoint above the truncation would make the truncated records count as lost. One call covers all
        logs that are truncated at the same time: it waits for the disk, if a checkpoint must be lowered.
        """
        for name, known in (
            (RECOVERY_POINTS, self._recovery_points),
            (LOG_START_OFFSETS, self._log_start_offsets),
        ):
            written = self._checkpoint(name)
            lowered = {key: offset for key, offset in offsets.items() if written.get(key, 0) > offset}
            if lowered:
                write_offsets(self._disk, self._file(name), written | lowered)
                known.update(lowered)

    def checkpoint_cleaner(self, topic: str, partition: int, offset: int) -> None:
        """Write the checkpoint up to which a log is compacted; in any thread, because it waits for the disk.

        The names of the log's files are made durable before: a part that counts as clean must be clean after
        a crash, because the next pass does not look for older values there.
        """
        self._disk.sync_directory(self._file(f"{topic}-{partition}"))
        with self._cleaner_lock:
            self._cleaner_offsets[TopicPartition(topic, partition)] = offset
            write_offsets(self._disk, self._file(CLEANER_OFFSETS), self._cleaner_offsets)

    def close_logs(self, run_all: RunAll = run_one_by_one) -> None:
        """Close all logs cleanly; their files are synced by jobs, which `run_all` may run in many threads.

        A log that cannot be closed cleanly keeps none of the others from it, and is recovered by the next
        start.
        """
        logs = [log for log in self._logs.values() if not log.status.is_closed]
        for first in range(0, len(logs), _CLOSED_TOGETHER):
            close_together(self._disk, logs[first : first + _CLOSED_TOGETHER], run_all)

    def close(self, broker_epoch: int = NO_BROKER_EPOCH, *, clean: bool = True) -> None:
        """Close the open logs, mark the stop as clean if every log was closed cleanly, and release the lock.

        The mark contains the epoch of this broker's registration: the next start with the same epoch has lost
        nothing. `clean=False` is for a start that failed before every log was open: the others may not be
        clean.
        """
        if self._lock is None:
            return
        try:
            if clean:
                self._close_logs(broker_epoch)
            for log in self._logs.values():
                log.close(clean=False)
        finally:
            self._lock.release()
            self._lock = None

    def _close_logs(self, broker_epoch: int) -> None:
        self.close_logs()
        logs = {key: log for key, log in self._logs.items() if not log.status.is_deleted}
        points = self._checkpoint(RECOVERY_POINTS)
        points |= {key: log.durability.flushed_offset for key, log in logs.items()}
        write_offsets(
            self._disk, self._file(RECOVERY_POINTS), {key: points[key] for key in points if key in logs}
        )
        if all(log.status.was_closed_cleanly for log in logs.values()):
            mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode()
            self._disk.write_atomically(self._file(CLEAN_SHUTDOWN), mark)

    def _open_log(self, key: TopicPartition, config: TopicConfig, now_ms: int) -> Log:
        log = Log.open(
            self._disk,
            self._file(f"{key[0]}-{key[1]}"),
            config,
            recovery_point=self._recovery_points.get(key, 0),
            log_start_offset=self._log_start_offsets.get(key, 0),
            clean=self.was_closed_cleanly,
            now_ms=now_ms,
            open_files=self._open_files,
            high_watermark=self._high_watermarks.get(key, 0),
        )
        log.compaction.restore(self._cleaner_offsets.get(key, 0))
        log.status.when_refused(self._log_refused)
        log.status.when_failing(self.note_failure)
        self._logs[key] = log
        return log

    def _forget(self, key: TopicPartition) -> None:
        """Drop a deleted log's checkpoints, durably: a new log of the same name must not inherit them."""
        for name, offsets in (
            (RECOVERY_POINTS, self._recovery_points),
            (LOG_START_OFFSETS, self._log_start_offsets),
            (HIGH_WATERMARKS, self._high_watermarks),
        ):
            offsets.pop(key, None)
            if key in self._checkpointed:
                written = self._checkpoint(name)
                written.pop(key, None)
                write_offsets(self._disk, self._file(name), written)
        self._checkpointed.discard(key)
        with self._cleaner_lock:
            if self._cleaner_offsets.pop(key, None) is not None:
                write_offsets(self._disk, self._file(CLEANER_OFFSETS), self._cleaner_offsets)

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _checkpoint(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._disk, self._file(name))
        except CheckpointError as problem:
            logger.error("%s cannot be used and counts as empty: %s", self._file(name), problem)
            return {}

    def _take_clean_mark(self) -> None:
        """Read and remove the mark of a clean stop: from now on a crash can lose records."""
        self.was_closed_cleanly = self._disk.exists(self._file(CLEAN_SHUTDOWN))
        if self.was_closed_cleanly:
            self.previous_broker_epoch = _epoch_in(self._disk.read(self._file(CLEAN_SHUTDOWN)))
            self._disk.remove(self._file(CLEAN_SHUTDOWN))
            self._disk.sync_directory(self.path)

    def _remove_doomed(self) -> None:
        for entry in self._disk.list(self.path):
            if entry.is_directory and entry.name.endswith(_DOOMED):
                doomed = self._file(entry.name)
                for file in self._disk.list(doomed):
                    self._disk.remove(f"{doomed}/{file.name}")
                self._disk.remove_directory(doomed)

    def _identify(self, node_id: int, new_uuid: Callable[[], UUID], cluster_id: str | None) -> None:
        path = self._file(META_PROPERTIES)
        self._is_new = not self._disk.exists(path)
        known = {} if self._is_new else _properties(self._disk.read(path))
        owner = known.get("node.id", str(node_id))
        if owner != str(node_id):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.path} belongs to node {owner}, and this is node {node_id}: give it another directory",
            )
        directory_id = parse_uuid(known.get("directory.id", "")) or new_uuid()
        self.cluster_id = known.get("cluster.id") or cluster_id or uuid_text(new_uuid())
        self.directory_id = directory_id
        formers = (parse_uuid(text) for text in known.get(_FORMER_IDS, "").split(","))
        self._former_ids = tuple(former for former in formers if former is not None)
        if not {"cluster.id", "node.id", "directory.id"} <= known.keys():
            self._write_identity(node_id)

    def _write_identity(self, node_id: int) -> None:
        lines = {
            "version": "1",
            "cluster.id": self.cluster_id,
            "node.id": str(node_id),
            "directory.id": uuid_text(self.directory_id),
        }
        if self._former_ids:
            lines[_FORMER_IDS] = ",".join(map(uuid_text, self._former_ids))
        text = "#\n" + "".join(f"{name}={value}\n" for name, value in lines.items())
        self._disk.write_atomically(self._file(META_PROPERTIES), text.encode("ascii"))


def _properties(data: bytes) -> dict[str, str]:
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name.strip(): value.strip() for name, _, value in pairs}


def _epoch_in(mark: bytes) -> int:
    """The broker epoch in the mark of a clean stop; older versions of Kafka write an empty mark."""
    try:
        return int(json.loads(mark)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH


def _topic_id_in(data: bytes) -> UUID | None:
    match = re.search(rb"(?m)^topic_id:\s*(\S{22})\s*$", data)
    return None if match is None else parse_uuid(match[1].decode("ascii", "replace"))
