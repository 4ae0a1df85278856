"""Writes src/ottla/blocking/__init__.pyi anew: `.venv/bin/python docs/generate_blocking.py`."""

from pathlib import Path

from ottla.blocking.stub import render_stub

if __name__ == "__main__":
    stub = Path(__file__).parents[1] / "src" / "ottla" / "blocking" / "__init__.pyi"
    stub.write_text(render_stub(), encoding="utf-8")
