"""From the bytes of a fetch to Arrow, many records at once: `fetched` is the door, `rows` the kernel."""
