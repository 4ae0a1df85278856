"""Decisions of the console, without a clock or a socket.

sessions         who is logged in, and until when
listing          search, order and pages of lists
search_windows   which offsets a search reads next, and what of it is shown
history          samples of rates and lag, in bounded memory
command_lines    the command that does the same
dead_letters     what a dead letter says about its origin
questions        the bodies of requests, checked
"""
