"""Planning a read: options, offsets, ranges. Pure.

options, kafka_options, position_options   the options of the format, checked
query_bounds                               where a batch or a stream begins and ends by its options
offsets, positions, intervals              offsets by partition, where reading starts and ends
admission, splitting                       how much a micro-batch takes, and how ranges are divided
filters, data_loss                         offset and time filters pushed down; what to do about records that are gone
"""
