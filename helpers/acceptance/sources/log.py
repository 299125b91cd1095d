"""A server's log, read line by line: SGLang's decode lines and vLLM's SpecDecoding lines, dead or still growing."""

from __future__ import annotations

from collections.abc import Iterable

from helpers.acceptance.sources import decode_log, vllm_log
from helpers.acceptance.sources.lines import Line
from helpers.acceptance.sources.result import Counters
from helpers.acceptance.sources.sglang_log import DecodeLog
from helpers.acceptance.sources.vllm_counts import VllmLog
from helpers.errors import UsageError


class LogReader:
    """Takes a log's lines as they come, and says at any time what they give.

    Args:
        engine: such as ``sglang==0.5.9``; decides between two meanings only where the figures fit both.
        draft_tokens: num_draft_tokens, where the log does not show its server_args.

    >>> reader = LogReader()
    >>> for number, text in enumerate(lines, start=1): reader.feed(Line(number, text))   # doctest: +SKIP
    >>> reader.result().accept_length                                                    # doctest: +SKIP
    """

    def __init__(self, *, engine: str | None = None, draft_tokens: int | None = None) -> None:
        self._sglang = DecodeLog(engine=engine, draft_tokens=draft_tokens)
        self._vllm = VllmLog()
        self._met = {"sglang": 0, "vllm": 0}
        self._broken: list[Line] = []
        self._broken_count = self._garbled = self._lines = 0

    def feed(self, line: Line) -> bool:
        """Takes one line; True when it brought new figures."""
        self._lines += 1
        before = dict(self._met)
        if "SpecDecoding metrics:" in line.text:
            found = vllm_log.parse(line.text, line.number)
            if found is None:
                self._note_broken(line)
            else:
                self._met["vllm"] += 1
                self._vllm.add(found)
        sign = decode_log.start_in(line.text)
        if sign:
            self._sglang.start(sign)
        for decoded in decode_log.parse(line.text):
            if decoded is None:
                self._note_broken(line)
                continue
            self._sglang.add(decoded, decode_log.service_of(line.text))
            self._met["sglang"] += decoded.accept_length is not None
        changed = before != self._met
        self._garbled += line.garbled and changed
        return changed

    def feed_all(self, lines: Iterable[Line]) -> LogReader:
        for line in lines:
            self.feed(line)
        return self

    def result(self) -> Counters:
        """What was read so far.

        Raises:
            UsageError: ``WB-COUNTERS-NONE`` when no usable line came.
            WrongResult: ``WB-COUNTERS-CONTRADICT`` when the figures contradict each other.
        """
        sglang, notes = self._sglang.result()
        vllm, more = self._vllm.result()
        if sglang is not None and vllm is not None:
            raise UsageError(
                "WB-COUNTERS-NONE",
                f"the log has {self._met['sglang']} decode lines of SGLang and {self._met['vllm']} lines of vLLM",
                expected="the log of one engine",
                next="split it: grep 'Decode batch' FILE, grep 'SpecDecoding metrics' FILE",
            )
        found = sglang or vllm
        if found is None:
            raise self._nothing([*notes, *more])
        return found.model_copy(update={"warnings": [*found.warnings, *self._about_lines()]})

    def _note_broken(self, line: Line) -> None:
        self._broken_count += 1
        if not self._broken:
            self._broken.append(line)

    def _about_lines(self) -> list[str]:
        notes = []
        if self._broken_count:
            first = self._broken[0]
            notes.append(
                f"{self._broken_count} cut or broken lines left out, the first is line {first.number}: "
                f"{first.text.strip()[:120]!r}"
            )
        if self._garbled:
            notes.append(f"{self._garbled} of the lines used held bytes that are no UTF-8")
        return notes

    def _nothing(self, notes: list[str]) -> UsageError:
        return UsageError(
            "WB-COUNTERS-NONE",
            f"no acceptance figures in {self._lines} lines of log" + (f": {'; '.join(notes)}" if notes else ""),
            expected="SGLang's 'Decode batch ... accept len' lines or vLLM's 'SpecDecoding metrics' lines",
            next="is this the log of a server with speculation, and did it decode more than one log interval?",
            lines=self._about_lines(),
        )
