"""Ottla for executors whose Python lacks it: sent along with the job.

    spark = ottla.spark.session("orders", "spark://master:7077")
    ottla.spark.ship(spark)

Spark unpacks an archive beside the files of a job, in a directory with the name that it is given, and that
place is on the path of every Python worker. So each top-level package goes as an archive of its own name, and
is imported like an installed one; compiled modules too, which could not be imported from a zip.

Rules
- Sent are Ottla, the data source's entry (pyspark_ottla), and those of Ottla's dependencies that the source
  and the sink import. PyArrow and numpy are too large to be sent with every job: Spark's Arrow needs them
  anyway, so workers have them.
- What is sent is what runs here. Workers must be of the same platform and have the same Python version, which
  Spark asks for anyway.
- Ship before the format "ottla" is used for the first time: Spark looks for data sources once.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final = ("ottla", "pyspark_ottla")
# Their metadata go with them: crc32c asks for its own version.
DISTRIBUTIONS: Final = ("crc32c", "cramjam")
# Files that an executor never imports, and files that are generated where it runs.
_LEFT_OUT: Final = ("__pycache__",)
# Spark's name for it.
_OF_STREAMS: Final = "streaming_job"


def ship(spark: SparkSession) -> None:
    """Send Ottla to the executors of a session, now and to those that come later. A second time does
    nothing.
    """
    from pyspark import SparkFiles

    context = spark.sparkContext
    sent = {url.rpartition("#")[2] for url in context.listArchives}
    if PACKAGES[0] in sent:
        return
    directory = Path(tempfile.mkdtemp(prefix="ottla-ship-"))
    # Executors fetch from here whenever they come, so it stays for as long as this program does.
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    for name, place in places():
        context.addArchive(f"{archived(name, place, directory)}#{name}")
    _show_to_streams(Path(SparkFiles.getRootDirectory()))


def _show_to_streams(root: Path) -> None:
    """The process on the driver that plans a stream looks for files in a directory below the one where they
    are.
    """
    with contextlib.suppress(FileExistsError):
        (root / _OF_STREAMS).symlink_to(".", target_is_directory=True)


def places() -> Iterator[tuple[str, Path]]:
    """The directories to be sent, by the names under which Python looks for them."""
    for name in PACKAGES:
        file = import_module(name).__file__
        assert file is not None
        yield name, Path(file).parent
    for name in DISTRIBUTIONS:
        found = distribution(name)
        tops = {file.parts[0] for file in found.files or () if len(file.parts) > 1 and ".." not in file.parts}
        for top in sorted(tops):
            yield top, Path(str(found.locate_file(top)))


def archived(name: str, place: Path, directory: Path) -> Path:
    """A zip with what is in a directory."""
    made = directory / f"{name}.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(place.rglob("*")):
            if file.is_file() and not set(_LEFT_OUT) & set(file.parts):
                archive.write(file, file.relative_to(place))
    return made
