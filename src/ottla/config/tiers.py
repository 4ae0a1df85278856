"""The settings of tiered storage: closed segments that move to an object store (KIP-405)."""

from typing import Final
from urllib.parse import urlsplit

from ottla.config.setting import ConfigError, ConfigType, family, setting

STORE_URL: Final = "ottla.remote.store.url"
_SCHEMES: Final = ("file", "s3", "s3a", "gs", "az", "memory")


@family
class TierConfig:
    """Where the remote part of logs is kept, and how much work goes into it at a time."""

    enable: bool = setting(
        "remote.log.storage.system.enable",
        False,
        doc="Whether this broker can keep closed segments in an object store; topics ask for it with "
        "remote.storage.enable. All brokers of a cluster need the same value.",
    )
    store_url: str | None = setting(
        STORE_URL,
        None,
        type=ConfigType.STRING,
        doc="The object store and the prefix of all objects: file:///directory, s3://bucket/prefix, "
        "gs://bucket/prefix or az://account/container/prefix, the same for all brokers. Credentials come from the "
        "environment and the cloud's usual places, never from here. Kafka loads a plugin instead.",
    )
    task_interval_ms: int = setting(
        "remote.log.manager.task.interval.ms",
        30_000,
        type=ConfigType.LONG,
        at_least=1,
        doc="How often a leader looks for segments to copy to, and to delete from, the object store.",
    )
    copier_thread_pool_size: int = setting(
        "remote.log.manager.copier.thread.pool.size",
        10,
        at_least=1,
        doc="How many segments are copied to, or deleted from, the object store at the same time.",
    )
    reader_threads: int = setting(
        "remote.log.reader.threads",
        10,
        at_least=1,
        doc="How many reads of the object store may be under way at the same time.",
    )
    fetch_max_wait_ms: int = setting(
        "remote.fetch.max.wait.ms",
        500,
        at_least=1,
        dynamic=True,
        doc="How long a fetch waits for the object store before it is answered without records; the read goes "
        "on meanwhile, and the next fetch finds its records.",
    )
    cache_bytes: int = setting(
        "ottla.remote.cache.bytes",
        64 << 20,
        type=ConfigType.LONG,
        at_least=1 << 20,
        doc="How much of what was read from the object store, and read ahead, is kept in memory. Kafka reads the "
        "records of every fetch again.",
    )
    read_bytes: int = setting(
        "ottla.remote.read.bytes",
        4 << 20,
        at_least=1 << 16,
        doc="How much is read from the object store with one request; the next piece is read ahead. Larger pieces "
        "make better use of a store that answers slowly.",
    )

    def refuse_unusable(self) -> None:
        """Raise ConfigError if tiered storage is switched on and no store can be meant."""
        if not self.enable:
            return
        if self.store_url is None:
            raise ConfigError(f"remote.log.storage.system.enable needs {STORE_URL}: where are segments kept?")
        parts = urlsplit(self.store_url)
        if parts.scheme not in _SCHEMES:
            raise ConfigError(
                f"{STORE_URL} begins with {parts.scheme or 'no scheme'}: it must be one of "
                f"{', '.join(f'{scheme}://' for scheme in _SCHEMES[:5])}."
            )
        if parts.username is not None or parts.password is not None or parts.query:
            raise ConfigError(
                f"{STORE_URL} must not hold credentials or options: they come from the environment."
            )
