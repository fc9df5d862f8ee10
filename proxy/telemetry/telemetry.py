"""A process's telemetry: metrics, the log, and the books. Makes a Ledger for each turn.

In: the configured names, a log sink and the log's settings. Out: a Ledger a turn; counts and lines of what is no turn.
"""

from __future__ import annotations

import os
import zlib
from hashlib import blake2b

from structlog.typing import FilteringBoundLogger

from pipeline.verdicts import Api
from proxy.telemetry.books import Books, StageEvents
from proxy.telemetry.catalogue import Names, code_label
from proxy.telemetry.ledger import Ledger, report
from proxy.telemetry.metrics import Metrics


class Telemetry:
    """What a process says about itself."""

    def __init__(
        self,
        names: Names,
        log: FilteringBoundLogger,
        *,
        stages: StageEvents = "changes",
        sample: float = 1.0,
        version: str = "0",
        salt: bytes | None = None,
    ) -> None:
        """`salt` makes key fingerprints comparable between processes; a random one is taken when it is not given."""
        self.metrics = Metrics(names, version)
        self.log = log
        self._books = Books(self.metrics, stages=stages, sample=sample)
        self._salt = salt or os.urandom(16)

    def turn(self, api: Api, request_id: str, trace_id: str) -> Ledger:
        """Begin a turn's books. All its lines live or die together: sampling looks at the request id alone."""
        sampled = self._books.sample >= 1 or zlib.crc32(request_id.encode()) < self._books.sample * 2**32
        return Ledger(self._books, api, self.log.bind(rid=request_id, trace_id=trace_id), trace_id, sampled=sampled)

    def answered(self, api: str, status: int) -> None:
        """Count a request that is no turn: model lists, token counts, unknown paths."""
        self.metrics["requests"].inc(api, code_label(status))

    def fingerprint(self, key: str) -> str:
        """A key as the log may show it: eight hex digits, salted."""
        return blake2b(key.encode("utf-8", "surrogateescape"), digest_size=4, key=self._salt).hexdigest()

    def unexpected(self, place: str, exc: BaseException, **fields: object) -> None:
        """Log a fault of this program outside of any turn: kind and place, no words. `fields` are the ids it is known by."""
        report(self.metrics, self.log, place, exc, **fields)
