"""A pipeline's project: a directory with `spark-pipeline.yml`, the file that Spark's own `spark-pipelines`
reads, too.

Rules
- Fields are Spark's (name, storage, catalog, database or schema, configuration, libraries). A relative
  `storage` is taken from the project's directory, so that a project can be moved and copied.
- What is Ottla's stands in `configuration`, under names that begin with `spark.ottla.`.
- Tables lie in `tables` beside the file, unless `spark.sql.warehouse.dir` says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlparse

from ottla.security.settings import Security

FILE_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
FIELDS: Final = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
BOOTSTRAP_SERVERS: Final = "spark.ottla.bootstrap.servers"
TABLE_FORMAT: Final = "spark.ottla.tables.format"
OUR_SETTINGS: Final = (BOOTSTRAP_SERVERS, TABLE_FORMAT)
WAREHOUSE: Final = "spark.sql.warehouse.dir"
FORMATS: Final = ("parquet", "delta", "iceberg")
DEFAULT_BOOTSTRAP_SERVERS: Final = "localhost:9092"
# Characters that may be a part of a group's name and of a directory's.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class ProjectError(ValueError):
    """A project cannot be read; the message says which file, what is wrong and what is allowed."""


@dataclass(frozen=True, slots=True)
class Project:
    """A pipeline as its file describes it."""

    file: Path
    name: str
    storage: str  # a URI
    catalog: str | None
    database: str | None
    configuration: Mapping[str, str]
    libraries: tuple[str, ...]
    # How its brokers are reached, by the names of Kafka's clients: from the command line, so that no password stands
    # in the project's file or among Spark's settings.
    client_properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def security(self) -> Security:
        return Security.from_properties(dict(self.client_properties))

    @property
    def directory(self) -> Path:
        return self.file.parent

    @property
    def bootstrap_servers(self) -> str:
        return self.configuration.get(BOOTSTRAP_SERVERS, DEFAULT_BOOTSTRAP_SERVERS)

    @property
    def table_format(self) -> str:
        return self.configuration.get(TABLE_FORMAT, "parquet")

    @property
    def warehouse(self) -> str:
        return self.configuration.get(WAREHOUSE) or _uri(self.directory / "tables")

    def group(self, flow: str) -> str:
        """The group to which a flow commits its progress."""
        return f"{self.name}.{flow}"


def find_project(directory: Path) -> Path:
    """The project's file in a directory."""
    if directory.is_file() and directory.name in FILE_NAMES:
        return directory.resolve()
    if not directory.is_dir():
        raise ProjectError(f"There is no directory {directory}.")
    found = [directory / name for name in FILE_NAMES if (directory / name).is_file()]
    if len(found) == 1:
        return found[0].resolve()
    if found:
        raise ProjectError(f"{directory} has both {' and '.join(FILE_NAMES)}: keep one of them.")
    raise ProjectError(
        f"{directory} is not a pipeline: there is no {FILE_NAMES[0]} in it. `ottla pipeline init NAME` makes one."
    )


def load_project(directory: Path) -> Project:
    """Read the file of the project in a directory."""
    file = find_project(directory)
    return parse_project(_yaml(file), file)


def _yaml(file: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ProjectError(f"{file} is not YAML: {' '.join(str(error).split())}") from error


def parse_project(content: Any, file: Path) -> Project:
    """Check what the file says."""
    if not isinstance(content, dict):
        raise ProjectError(f"{file}: expected fields such as `name: orders` and `storage: storage`.")
    for name in content:
        if name not in FIELDS:
            close = get_close_matches(str(name), FIELDS, 1)
            hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(FIELDS)}."
            raise ProjectError(f"{file}: the field '{name}' is unknown; {hint}")
    return Project(
        file=file,
        name=_name(content, file),
        storage=_storage(content, file),
        catalog=_text(content, "catalog", file),
        database=_text(content, "database", file) or _text(content, "schema", file),
        configuration=_configuration(content.get("configuration") or {}, file),
        libraries=_libraries(content.get("libraries") or [], file),
    )


def _name(content: Mapping[str, Any], file: Path) -> str:
    name = _text(content, "name", file)
    if name is None:
        raise ProjectError(f"{file}: the field 'name' is missing: it names the pipeline and its groups.")
    if not _NAME.fullmatch(name):
        raise ProjectError(f"{file}: 'name' is {name!r}, but takes {NAME_IN_WORDS}.")
    return name


NAME_IN_WORDS: Final = "a letter and then letters, digits, '_' and '-'"


def checked_name(name: str) -> str:
    """A name for a new pipeline."""
    if not _NAME.fullmatch(name):
        raise ProjectError(f"A pipeline cannot be called {name!r}: a name is {NAME_IN_WORDS}.")
    return name


def _storage(content: Mapping[str, Any], file: Path) -> str:
    storage = _text(content, "storage", file)
    if not storage:
        raise ProjectError(
            f"{file}: the field 'storage' is missing: the directory for checkpoints, for example `storage: storage`."
        )
    if urlparse(storage).scheme:
        return storage
    return _uri((file.parent / storage).resolve())


def _text(content: Mapping[str, Any], field: str, file: Path) -> str | None:
    value = content.get(field)
    if value is None or isinstance(value, str):
        return value
    raise ProjectError(f"{file}: '{field}' is {value!r}, but takes a text.")


def _configuration(given: Any, file: Path) -> dict[str, str]:
    if not isinstance(given, dict):
        raise ProjectError(f"{file}: 'configuration' takes names and values, one per line.")
    settings = {}
    for name, value in given.items():
        if isinstance(value, dict | list) or value is None:
            raise ProjectError(f"{file}: '{name}' in 'configuration' takes a text or a number.")
        settings[str(name)] = str(value).lower() if isinstance(value, bool) else str(value)
    return _checked_settings(settings, file)


def _checked_settings(settings: dict[str, str], file: Path) -> dict[str, str]:
    for name in settings:
        if name.startswith("spark.ottla.") and name not in OUR_SETTINGS:
            raise ProjectError(
                f"{file}: the setting '{name}' is unknown; those of Ottla are {', '.join(OUR_SETTINGS)}."
            )
    if (table_format := settings.get(TABLE_FORMAT, "parquet")) not in FORMATS:
        raise ProjectError(f"{file}: '{TABLE_FORMAT}' is {table_format!r}, but takes {' or '.join(FORMATS)}.")
    return settings


def _libraries(given: Any, file: Path) -> tuple[str, ...]:
    expected = "expected entries such as `- glob: {include: transformations/**}`"
    if not isinstance(given, list) or not given:
        raise ProjectError(f"{file}: 'libraries' says where the definitions are: {expected}.")
    patterns = []
    for entry in given:
        try:
            include = entry["glob"]["include"]
        except (TypeError, KeyError) as error:
            raise ProjectError(f"{file}: in 'libraries', {expected}, not {entry!r}.") from error
        patterns.append(_pattern(str(include), file))
    return tuple(patterns)


def _pattern(include: str, file: Path) -> str:
    """Spark allows a file, or a folder with all below it."""
    folder = include.removesuffix("/**")
    if any(each in folder for each in "*?["):
        raise ProjectError(f"{file}: 'include' is {include!r}, but takes a file, or a folder and then /**.")
    return f"{include}/*" if include.endswith("/**") else include


def definition_files(project: Project) -> list[Path]:
    """The files that define the pipeline, in an order that does not depend on the file system."""
    files: list[Path] = []
    for pattern in project.libraries:
        found = sorted(
            each
            for each in project.directory.glob(pattern)
            if each.is_file() and "__pycache__" not in each.parts and not each.name.startswith(".")
        )
        files += [each for each in found if each not in files]
    for file in files:
        if file.suffix not in (".py", ".sql"):
            raise ProjectError(f"{file} is neither Python nor SQL: definitions end in .py or .sql.")
    if not files:
        raise ProjectError(
            f"{project.file}: 'libraries' names no file that there is: {', '.join(project.libraries)}."
        )
    return files


def check_syntax(project: Project) -> None:
    """Refuse Python files that cannot be parsed: a slip is told at once, and not after the start of Spark."""
    for file in definition_files(project):
        if file.suffix != ".py":
            continue
        try:
            compile(file.read_bytes(), file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:  # ValueError: null bytes
            line = error.lineno if isinstance(error, SyntaxError) else None
            reason = error.msg if isinstance(error, SyntaxError) else str(error)
            raise ProjectError(f"{file}{f':{line}' if line else ''}: {reason}") from None


def _uri(path: Path) -> str:
    return f"file://{path}"  # not `as_uri`: Hadoop takes %20 for three letters


def local_path(uri: str) -> Path | None:
    """The path of a file URI; None if it is somewhere else."""
    parts = urlparse(uri)
    return Path(parts.path) if parts.scheme in ("", "file") else None
