"""Kafka's messages: declared once, compiled to straight-line codecs. Pure.

apis, messages                          the table of APIs and versions; one file of declarations per family
declaration, layout                     fields with their versions, and the layout of a message in one version
codec, reading, writing, function_source   the compiler: from a layout to the text of a reader and a writer
primitives, frame, write_errors         the basic types, request and response frames, errors that name the field
"""
