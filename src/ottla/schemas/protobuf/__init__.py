"""Protobuf: what a .proto file or a descriptor says, how it is written, and who can read whose data. Pure.

types              the parts of a file
tokens             a text as words
option_text        options, read and written
parser             words to parts
well_known         the files that every schema may import
type_table         types by name, and how a name is resolved in its scope
wire_values        Protobuf's binary form by definitions, without classes
descriptor_reader  serialized descriptors to parts
checks             what protoc would refuse
model              a schema with all that it imports
canonical          parts to the text that Confluent's registry keeps
normal_options     options in the normal form
descriptor_writer  a schema to a serialized descriptor
differences        the rules by which one schema reads another's data
"""
