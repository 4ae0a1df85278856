"""Where one log's files are."""

from dataclasses import dataclass

from ottla.log.files.file_names import file_name
from ottla.log.files.open_files import OpenFiles
from ottla.runtime.disk import Disk


@dataclass(frozen=True, slots=True)
class Location:
    """The directory of one log, the disk it is on, and the pool that bounds its open files."""

    disk: Disk
    directory: str
    open_files: OpenFiles

    @property
    def name(self) -> str:
        """The directory's own name, `<topic>-<partition>`; log messages use it."""
        return self.directory.rstrip("/").rpartition("/")[2]

    def path(self, offset: int, kind: str) -> str:
        """The path of the file of this kind that starts at `offset`."""
        return f"{self.directory}/{file_name(offset, kind)}"
