"""What every public call of a client checks before it does anything.

arguments   types and values of arguments; pure
lifetime    a client is opened once, by one event loop, and used between opening and closing
"""
