"""The administrator.

admin         the public class
record_peek   single records at given offsets
"""
