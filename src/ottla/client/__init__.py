"""Ottla's own client: administrator and consumer. The producer follows."""
