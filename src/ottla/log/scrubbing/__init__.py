"""Segments that are read again in search of damage, and damaged ones set aside.

segment_check   reads one segment, piece by piece, and says where its first damaged batch is
quarantine      sets a damaged segment aside, so that a follower fetches its records again
"""
