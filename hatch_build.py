"""Compiles the loop over records (src/ottla/records/_native.c) into the wheel, if OTTLA_NATIVE asks for it.

OTTLA_NATIVE   the wheel
not set, 0     pure Python, for every platform
try            with the compiled loop if there is a C compiler, else pure Python
1              with the compiled loop; an error if it cannot be compiled
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "ottla.records._native"
SOURCE = Path("src/ottla/records/_native.c")


class NativeBuildHook(BuildHookInterface[Any]):
    """Called by hatchling for each wheel, editable ones included."""

    def dependencies(self) -> list[str]:
        return ["setuptools"] if _wish() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wish = _wish()
        if not wish:
            return
        try:
            compiled = _compile(Path(self.root))
        except Exception as problem:
            if wish != "try":
                raise
            print(
                f"ottla: records are decoded in Python: {SOURCE} was not compiled: {problem}", file=sys.stderr
            )
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
        build_data["artifacts"].append(f"/{compiled.as_posix()}")


def _wish() -> str:
    given = os.environ.get("OTTLA_NATIVE", "0")
    if given not in ("", "0", "1", "try"):
        raise ValueError(f"OTTLA_NATIVE is 0, 1 or try, not '{given}'")
    return given.removeprefix("0")


def _compile(root: Path) -> Path:
    """Compile beside the source; where, from the root."""
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    os.chdir(root)
    extension = Extension(MODULE, [str(SOURCE)], py_limited_api=True)
    distribution = Distribution({"name": "ottla", "ext_modules": [extension], "package_dir": {"": "src"}})
    command = build_ext(distribution)
    command.inplace = True
    with TemporaryDirectory() as place:
        command.build_temp = place
        command.ensure_finalized()
        command.run()
    return Path(command.get_ext_fullpath(MODULE)).resolve().relative_to(root)
