"""Writes src/ottla/blocking/__init__.pyi: `.venv/bin/python docs/generators/blocking_stub.py`."""

from pathlib import Path

from ottla.blocking.stub import render_stub

STUB = Path(__file__).parents[2] / "src" / "ottla" / "blocking" / "__init__.pyi"

if __name__ == "__main__":
    STUB.write_text(render_stub(), encoding="utf-8")
