"""Moments as people write them."""

from __future__ import annotations

from datetime import datetime


def parse_moment(text: str) -> int:
    """An ISO 8601 time in ms since 1970, local without a zone. Raises ValueError with a sentence."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f'"{text}" is not a moment: write it as 2025-01-31T08:30, 2025-01-31T08:30:00Z or 2025-01-31'
        ) from None
    return int(moment.timestamp() * 1000)
