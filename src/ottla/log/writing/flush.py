"""One flush: a fixed set of files and directories to sync, in any thread."""

from ottla.log.files.file_names import (
    INDEX,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
)
from ottla.log.segments.extent import Extent
from ottla.runtime.disk import Disk, File
from ottla.runtime.ordered_set import OrderedSet


class FlushJob:
    """Syncs a fixed set of files, oldest first. `run` is called once, in any thread; OSError if it failed."""

    __slots__ = (
        "_active",
        "_disk",
        "_paths",
        "appended_bytes",
        "directories",
        "epochs_version",
        "is_done",
        "offset",
    )

    def __init__(
        self,
        extent: Extent,
        *,
        flushed_offset: int,
        appended_bytes: int,
        unsynced_directories: OrderedSet[str],
        is_last: bool,
    ) -> None:
        location, segments = extent.location, extent.segments
        self._disk: Disk = location.disk
        self._active: File = segments.active.file
        self._paths = [
            segment.path(kind)
            # The segment of the last flushed record may have been sealed since: its indexes are new.
            for segment in segments.from_offset(flushed_offset - 1)
            if segment is not segments.active
            for kind in (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)
        ]
        self.offset = extent.end_offset
        self.appended_bytes = appended_bytes
        self.directories = OrderedSet(unsynced_directories)
        self.epochs_version = extent.leader_epochs.version
        if location.directory in self.directories:
            self._paths.append(segments.active.path(SNAPSHOT))
        if location.directory.rpartition("/")[0] in self.directories:
            # The directory itself is new: whose log it is must be durable before the first record is.
            self._paths.append(f"{location.directory}/{PARTITION_METADATA}")
        if is_last:
            # After a clean stop nothing is checked: the indexes and the producer snapshot must be durable.
            self._paths += [segments.active.path(kind) for kind in (INDEX, TIME_INDEX, TXN_INDEX)]
            self._paths.append(location.path(self.offset, SNAPSHOT))
            self.directories.add(location.directory)
        if not extent.leader_epochs.is_durable:
            self._paths.append(f"{location.directory}/{LEADER_EPOCHS}")
            self.directories.add(location.directory)
        self.is_done = False

    def run(self) -> None:
        """Sync. Nothing is known to be durable before this has returned."""
        self.sync_files()
        for directory in self.directories:
            self._disk.sync_directory(directory)
        self.complete()

    def sync_files(self) -> None:
        """The first half of `run`, for a caller that syncs the directories of many jobs together."""
        for path in self._paths:
            self._sync(path)
        self._active.sync()

    def complete(self) -> None:
        """All files, and then all directories, are synced."""
        self.is_done = True

    def _sync(self, path: str) -> None:
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            # Retention deleted the segment meanwhile: it need not be durable any more. Few segments have an
            # index of aborted transactions.
            return
        file.sync()
