"""Ottla's own client. Today: the administrator's half; producer and consumer follow."""
