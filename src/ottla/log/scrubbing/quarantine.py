"""Sets a damaged segment aside: `<base>.log` becomes `<base>.log.quarantine-<position>`.

The log remembers, durably and before that, that its records from the segment's base offset on are lost: a follower
truncates its log there before its next fetch (`segments.lost_offset`), and fetches them again. A crash in between
leaves a log that does the same after its next opening. The file is renamed and not copied: what cannot be read
cannot be copied, and a part of the disk that cannot be read is then not used for another file.
"""

from ottla.log.files.file_names import LOG
from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import Segment
from ottla.log.writing.durability import Durability


def set_aside(extent: Extent, durability: Durability, segment: Segment, position: int) -> str:
    """Set the segment aside, whose first damage is at `position`; the path of its file. OSError if that fails."""
    disk, path = extent.location.disk, segment.path(LOG)
    extent.note_loss(segment.base_offset)
    kept, number = f"{path}.quarantine-{position}", 1
    while disk.exists(kept):
        number += 1
        kept = f"{path}.{number}.quarantine-{position}"
    disk.rename(path, kept)
    durability.note_names()
    return kept
