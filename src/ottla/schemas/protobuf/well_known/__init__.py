"""The files that every schema may import without a reference, without comments and options. Pure.

google_protobuf   google/protobuf: timestamps, durations, wrappers, structs ...
descriptor        google/protobuf/descriptor.proto, by which descriptors themselves are read
google_type       google/type: dates, money, postal addresses ...
confluent         confluent/meta.proto, confluent/type: decimals, variants
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ottla.schemas.protobuf.parser import parse_file
from ottla.schemas.protobuf.types import File
from ottla.schemas.protobuf.well_known import confluent, descriptor, google_protobuf, google_type

DESCRIPTOR: Final = "google/protobuf/descriptor.proto"
TEXTS: Final = {**google_protobuf.TEXTS, **descriptor.TEXTS, **google_type.TEXTS, **confluent.TEXTS}


@lru_cache(maxsize=64)
def well_known_file(name: str) -> File:
    """One of the files, parsed."""
    return parse_file(TEXTS[name])
