"""Commands that write and read records.

mirror                               `ottla mirror`: topics of one cluster copied to another
produce, stdin_lines, line_parsers   `ottla produce`: lines of standard input to records
consume, consume_range               `ottla consume`: where reading starts and ends
line_formats                         records to lines
bench, bench_figures, bench_view     `ottla bench`: load, percentiles, the live view
"""
