"""The names of objects: `<topic>-<topic id>/<partition>/<20-digit base offset>-<segment id><kind>`.

Kinds are the endings of the files on disk, and `.epochs` for the leader epochs of the segment's records. Ids are
in Kafka's notation. A name is never used twice: each copy of a segment has an id of its own.
"""

import re
from typing import Final
from uuid import UUID

from ottla.log.files.file_names import INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX, file_name
from ottla.log.files.uuids import parse_uuid, uuid_text

EPOCHS: Final = ".epochs"
_STEM: Final = re.compile(r"[0-9]{20}-[A-Za-z0-9_-]{22}")
KINDS: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT, EPOCHS)


def topic_prefix(topic: str, topic_id: UUID) -> str:
    """The beginning of the names of all objects of a topic."""
    return f"{topic}-{uuid_text(topic_id)}/"


def object_name(
    topic: str, topic_id: UUID, partition: int, base_offset: int, segment_id: UUID, kind: str
) -> str:
    """The name of one object of a segment."""
    directory = f"{topic_prefix(topic, topic_id)}{partition}"
    return f"{directory}/{file_name(base_offset, f'-{uuid_text(segment_id)}{kind}')}"


def segment_id_in(name: str) -> UUID | None:
    """The segment id in an object's name; None if the name is not one of ours."""
    stem, dot, ending = name.rpartition("/")[2].rpartition(".")
    if f"{dot}{ending}" not in KINDS or _STEM.fullmatch(stem) is None:
        return None
    return parse_uuid(stem[-22:])
