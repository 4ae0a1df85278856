"""Java's `String.hashCode`: by it every Kafka broker and tool finds the partition that holds a group."""

_SIGN_BIT = 1 << 31
_WORD = 1 << 32


def java_hash(text: str) -> int:
    """The 32-bit signed hash of a string, over its UTF-16 units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) % _WORD
    return value - _WORD if value & _SIGN_BIT else value


def partition_for(key: str, partition_count: int) -> int:
    """The partition of an internal topic that holds `key`. Java's `abs` of the least integer counts as 0."""
    value = java_hash(key)
    return 0 if value == -_SIGN_BIT else abs(value) % partition_count
