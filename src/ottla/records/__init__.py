"""Record batches. Pure.

batch, header, corruption                              the view of a batch, its 61-byte header, what is wrong with one
builder, record, columns, control                      batches written, records read, columns of records, control records
decoding, uniform_runs, single_record_batches          many records decoded at once
compiled, _native.c                                    the loops of `decoding` and `columns` in C, where they are installed
aborted_transactions                                   the batches that a reader of committed records skips
index_entries, index_lookup                            a segment's index files: their entries, lookups in their bytes
compression, varint                                    codecs and zig-zag varints
"""
