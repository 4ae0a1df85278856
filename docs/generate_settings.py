"""Writes docs/settings.md anew: `.venv/bin/python docs/generate_settings.py`."""

from pathlib import Path

from ottla.config import render_reference

if __name__ == "__main__":
    Path(__file__).with_name("settings.md").write_text(render_reference(), encoding="utf-8")
