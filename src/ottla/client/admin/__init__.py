"""The administrator.

admin         the public class
plan          its questions: which broker is asked what
record_peek   single records at given offsets
"""
