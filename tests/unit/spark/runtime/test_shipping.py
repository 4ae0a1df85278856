from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from ottla.spark.runtime.shipping import archived, places


def test_what_is_sent_is_all_that_the_data_source_imports_beside_spark_and_arrow(tmp_path: Path) -> None:
    """A Python that has nothing but what is sent, PySpark, PyArrow and numpy imports the source and the
    sink.
    """
    sent = tmp_path / "sent"
    for name, place in places():
        with zipfile.ZipFile(archived(name, place, tmp_path)) as archive:
            assert not [each for each in archive.namelist() if "__pycache__" in each]
            archive.extractall(sent / name)
    for name in ("pyspark", "py4j", "pyarrow", "pyarrow.libs", "numpy", "numpy.libs"):
        _link(name, tmp_path / "there")
    program = f"import sys; sys.path[:0] = [{str(sent)!r}, {str(tmp_path / 'there')!r}]\n"
    program += "import pyspark_ottla, ottla.spark.sink.writer\nprint(pyspark_ottla.DefaultSource.name(), ottla.__file__)"
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["ottla", str(sent / "ottla" / "__init__.py")], done.stderr


def _link(name: str, directory: Path) -> None:
    import pyarrow

    place = Path(pyarrow.__file__).parents[1] / name
    directory.mkdir(exist_ok=True)
    if place.exists():
        (directory / name).symlink_to(place)
