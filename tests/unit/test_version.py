"""The version is one number, told in two places."""

import tomllib
from pathlib import Path

import ottla
from ottla.version import __version__


def test_the_package_and_its_metadata_tell_the_same_version() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert ottla.__version__ == __version__ == project["version"]
