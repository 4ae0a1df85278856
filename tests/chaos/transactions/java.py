"""A transactional writer around the Java client, which lives in the program of `tests/compat/foreign_clients.py`."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.chaos.transactions.client import (
    BETWEEN_TRANSACTIONS_S,
    TRANSACTION_TIMEOUT_MS,
    WRITER_ABORTS,
    AbandonedError,
    ChangedMindError,
    Places,
    SharedBook,
    TransactionalClient,
)
from tests.clients.model import RefusedError
from tests.compat.foreign_clients import java_driver


class JavaError(Exception):
    """The Java client raised an exception: the transaction is aborted, or a new life begins."""


class JavaWriter(TransactionalClient):
    """Writes transactions to the source topic; they are of transaction version 2."""

    def __init__(self, name: str, places: Places, book: SharedBook, directory: Path) -> None:
        super().__init__(name, places, book, directory)
        self._driver = java_driver()

    @property
    def _producer(self) -> str:
        return f"{self.name}-{self.life}"

    def live(self) -> None:
        try:
            self._ask(
                "open_producer", transactional_id=self.name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
            )
            while self.goes_on:
                self._transact()
                time.sleep(BETWEEN_TRANSACTIONS_S)
        except (JavaError, AbandonedError) as error:
            self.note(error)
        with suppress(JavaError):
            self._ask("drop_producer")

    def stop(self, deadline_s: float) -> None:
        super().stop(deadline_s)
        self._driver.close()

    def _transact(self) -> None:
        with self.transaction() as transaction:
            self._ask("begin_transaction")
            try:
                for topic, partition in self.records_to_send():
                    value = f"{self.book.send(transaction, (topic, partition))}~"
                    self._ask("send_in_transaction", topic=topic, partition=partition, value=value)
                self.change_mind(WRITER_ABORTS)
            except (ChangedMindError, JavaError):
                self._ask("abort_transaction")
                raise ChangedMindError from None
            transaction.may_commit = True
            self._ask("commit_transaction")

    def _ask(self, op: str, **more: object) -> Any:
        question = {"op": op, "bootstrap": self.places.bootstrap, "producer": self._producer, **more}
        try:
            return self._driver.ask(question)
        except RefusedError as error:
            raise JavaError(str(error)) from error
        except AssertionError as error:
            if "no answer" in str(error):
                raise
            raise JavaError(str(error)) from error
