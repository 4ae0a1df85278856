"""Tables in Delta's or Iceberg's format: what Spark is to be told, and whether it has what it takes.

Rules
- Each comes as jars that are built for one version of Spark. On another they end in the middle of a query
  with a class or method that is not there, so the two versions are compared before anything is written.
- What the user has set stays. A session's extensions are a list: ours is added to it.
- Delta's tables are known to Spark's own catalog. Iceberg's have one of their own in the warehouse's files,
  which needs no server. It keeps nothing in memory: a query's writes would not be seen by the session that
  started it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_ICEBERG_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"
_CATALOG: Final = "spark.sql.catalog.spark_catalog"
_EXTENSIONS: Final = "spark.sql.extensions"
_BUILT_FOR: Final = re.compile(r"[-_](\d+\.\d+)_2\.1\d-[^/]*\.jar$")  # as in delta-spark_4.2_2.13-4.4.0.jar


class TableFormatError(ValueError):
    """Spark cannot write or read tables of a format; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A format, as Spark knows it. `packages` are the newest on Maven Central for each version of Spark, as
    of this release.
    """

    title: str
    extension: str
    packages: Mapping[str, str]

    @property
    def newest(self) -> str:
        """The newest version of Spark that there is a package for."""
        return max(self.packages)


TABLE_FORMATS: Final = {
    "delta": TableFormat(
        "Delta",
        "io.delta.sql.DeltaSparkSessionExtension",
        {
            "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
            "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
        },
    ),
    "iceberg": TableFormat(
        "Iceberg",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        {"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"},
    ),
}


def format_settings(
    table_format: str, warehouse: str | None = None, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Settings with which a session knows a format; nothing for one that Spark brings. `given` are the
    user's.

    With a `warehouse` Iceberg's tables have names: those of a catalog in that directory.
    """
    if table_format not in TABLE_FORMATS:
        return {}
    given = given or {}
    extension = TABLE_FORMATS[table_format].extension
    wanted = [each.strip() for each in given.get(_EXTENSIONS, "").split(",") if each.strip()]
    settings = {_EXTENSIONS: ",".join([*wanted, *([] if extension in wanted else [extension])])}
    if _CATALOG in given:
        return settings
    if table_format == "delta":
        return {**settings, _CATALOG: DELTA_CATALOG}
    return {**settings, **_iceberg_catalog(warehouse)} if warehouse else settings


def _iceberg_catalog(warehouse: str) -> dict[str, str]:
    return {
        _CATALOG: _ICEBERG_CATALOG,
        f"{_CATALOG}.type": "hadoop",
        f"{_CATALOG}.warehouse": warehouse,
        f"{_CATALOG}.cache-enabled": "false",
    }


def prepare_format(spark: SparkSession, table_format: str) -> None:
    """Raise a TableFormatError where this Spark cannot have tables of a format; make the database that all
    programs expect.
    """
    if table_format not in TABLE_FORMATS:
        return
    check_format(spark, table_format)
    if spark.conf.get(_CATALOG, None) == _ICEBERG_CATALOG:
        spark.sql("CREATE NAMESPACE IF NOT EXISTS default")


def check_format(spark: SparkSession, table_format: str) -> None:
    """Raise a TableFormatError if a driver here lacks a format, or has one that is built for another
    Spark.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None or table_format not in TABLE_FORMATS:
        return
    version = ".".join(spark.version.split(".")[:2])
    if problem := problem_of(TABLE_FORMATS[table_format], version, _jar_of(jvm, table_format)):
        raise TableFormatError(problem)


def _jar_of(jvm: Any, table_format: str) -> str | None:
    """Where Spark has a format from; None if it has it not."""
    name, loading = TABLE_FORMATS[table_format].extension, cast(Any, jvm).org.apache.spark.util.Utils
    if not loading.classIsLoadable(name):
        return None
    source = loading.classForName(name, False, False).getProtectionDomain().getCodeSource()
    return str(source.getLocation().getPath()) if source is not None else ""


def problem_of(known: TableFormat, version: str, jar: str | None) -> str | None:
    """The problem of a format on a version of Spark, given the jar that it comes from; None if there is
    none.
    """
    if jar is None:
        return f"this Spark does not have {known.title}. {_remedy(known, version)}"
    built = _BUILT_FOR.search(jar)
    if built is None or built[1] == version:
        return None
    name = jar.rpartition("/")[2]
    return f"{name} is {known.title} for Spark {built[1]}, and this is Spark {version}. {_remedy(known, version)}"


def _remedy(known: TableFormat, version: str) -> str:
    if package := known.packages.get(version):
        return f"Set `spark.jars.packages` to {package}."
    newest = known.newest
    return (
        f"The newest Spark for which we know one is {newest}: `pip install 'pyspark[pipelines]=={newest}.*'`, "
        f"and set `spark.jars.packages` to {known.packages[newest]}."
    )
