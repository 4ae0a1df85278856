"""Where object stores come from: an address leads to a store."""

from typing import Protocol

from ottla.runtime.object_store import ObjectStore, StoreError


class Stores(Protocol):
    """Where stores come from."""

    def open(self, url: str, *, is_read_only: bool = False) -> ObjectStore:
        """The store with this address. StoreError if it cannot be used at all.

        A directory that does not exist is made, unless nothing will be written.
        """


class ObstoreStores:
    """Stores of the package obstore: files, S3 and what speaks like it, Google's and Microsoft's."""

    def open(self, url: str, *, is_read_only: bool = False) -> ObjectStore:
        # Imported here: only brokers with tiered storage need the package, and it loads 6 MB.
        try:
            from ottla.runtime.obstore_store import open_store
        except ImportError as problem:
            raise StoreError(
                "tiered storage needs the package obstore: pip install 'ottla[tiers]'"
            ) from problem
        return open_store(url, is_read_only=is_read_only)
