"""Writes docs/settings.md: `.venv/bin/python docs/generators/settings.py`."""

from pathlib import Path

from ottla.config import render_reference

PAGE = Path(__file__).parents[1] / "settings.md"

if __name__ == "__main__":
    PAGE.write_text(render_reference(), encoding="utf-8")
