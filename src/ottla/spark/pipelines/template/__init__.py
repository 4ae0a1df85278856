"""The project that `ottla pipeline init` makes: a pipeline that runs as it is, to be copied and changed."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from ottla.spark.pipelines.project import DEFAULT_BOOTSTRAP_SERVERS, FILE_NAMES, checked_name

_NAME: Final = "order_pipeline"  # what the project in this package is called


def copy_template(directory: Path, bootstrap_servers: str | None = None) -> list[Path]:
    """Make a project in a new directory, named after it; the files, relative to the directory. Never touches
    one that there is.
    """
    name = checked_name(directory.name)
    if directory.exists():
        raise FileExistsError(f"{directory} is there already: nothing was changed. Choose another name.")
    made = []
    for relative, content in sorted(template_files().items()):
        text = content.replace(_NAME, name)
        if relative == FILE_NAMES[0] and bootstrap_servers:
            text = text.replace(DEFAULT_BOOTSTRAP_SERVERS, bootstrap_servers)
        file = directory / relative
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        made.append(Path(relative))
    return made


def template_files() -> dict[str, str]:
    """All files of the project by their paths."""
    return dict(_walk(resources.files(__name__) / "project", ""))


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    found = []
    for each in folder.iterdir():
        if each.is_dir() and each.name != "__pycache__":
            found += _walk(each, f"{prefix}{each.name}/")
        elif each.is_file():
            found.append((f"{prefix}{each.name}", each.read_text(encoding="utf-8")))
    return found
