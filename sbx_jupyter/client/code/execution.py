"""The results of code that ran in a sandbox, under the names that the public clients give them."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, cast

from sbx_jupyter.display import bundle, reports

LOG_LIMIT: Final = 64 * 1024 * 1024
"""Characters that an execution keeps of each output stream: the last ones."""

RESULTS_LIMIT: Final = 256 * 1024 * 1024
"""Bytes of results that an execution keeps: the first ones."""

FORMATS: Final = (
    "text",
    "html",
    "markdown",
    "svg",
    "png",
    "jpeg",
    "pdf",
    "latex",
    "json",
    "javascript",
    "data",
    "chart",
)


@dataclass(frozen=True, slots=True)
class OutputMessage:
    """A piece of what the code printed; ``error`` when it came from stderr."""

    line: str
    timestamp: str
    error: bool = False

    def __str__(self) -> str:
        return self.line


@dataclass(frozen=True, slots=True)
class ExecutionError:
    """The exception that ended the code; ``traceback`` has terminal colours."""

    name: str
    value: str
    traceback: str

    def to_json(self) -> str:
        return json.dumps({"name": self.name, "value": self.value, "traceback": self.traceback})


class Chart:
    """What a figure draws (interface 5.4): the fields of its JSON object as attributes."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        try:
            return _attribute(self.__dict__["_fields"][name])
        except KeyError:
            raise AttributeError(f"the chart has no {name!r}") from None

    def __repr__(self) -> str:
        return f"Chart({self._fields.get('type')!r})"

    def to_dict(self) -> dict[str, Any]:
        return self._fields


def _attribute(value: Any) -> Any:
    if isinstance(value, dict):
        return Chart(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return [_attribute(item) for item in cast("list[Any]", value)]
    return value


@dataclass(repr=False)
class Result:
    """A value that the code displayed, in one or more formats.

    Pictures are base64 text. A notebook shows it without running anything of it in the page.
    """

    text: str | None = None
    html: str | None = None
    markdown: str | None = None
    svg: str | None = None
    png: str | None = None
    jpeg: str | None = None
    pdf: str | None = None
    latex: str | None = None
    json: Any = None
    javascript: str | None = None
    data: Any = None
    chart: Chart | None = None
    is_main_result: bool = False
    extra: dict[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __repr__(self) -> str:
        if self.text:
            return f"Result({self.text})"
        return f"Result(Formats: {', '.join(self.formats())})"

    def formats(self) -> list[str]:
        """The names of the formats that it has."""
        return [name for name in FORMATS if getattr(self, name)] + list(self.extra or {})

    def to_dict(self) -> dict[str, Any]:
        """Its formats for JSON, always with ``text``."""
        extra = self.extra or {}
        found = {name: extra[name] if name in extra else self[name] for name in self.formats()}
        if self.chart is not None:
            found["chart"] = self.chart.to_dict()
        return found | {"text": self.text}

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return bundle.safe_bundle(vars(self))


@dataclass(repr=False)
class Logs:
    """The text that the code printed, in pieces as it arrived."""

    stdout: list[str] = field(default_factory=list[str])
    stderr: list[str] = field(default_factory=list[str])

    def __repr__(self) -> str:
        return f"Logs(stdout: {self.stdout}, stderr: {self.stderr})"

    def to_json(self) -> str:
        return json.dumps({"stdout": self.stdout, "stderr": self.stderr})


@dataclass(repr=False)
class Execution:
    """One run of code: what it printed and displayed, and the error that ended it, if any.

    ``truncated`` says that output was too large to be kept whole.
    """

    results: list[Result] = field(default_factory=list[Result])
    logs: Logs = field(default_factory=Logs)
    error: ExecutionError | None = None
    execution_count: int | None = None
    truncated: bool = False

    def __repr__(self) -> str:
        return f"Execution(Results: {self.results}, Logs: {self.logs}, Error: {self.error})"

    @property
    def text(self) -> str | None:
        """The text of the main result: the value of the last expression."""
        return next((result.text for result in self.results if result.is_main_result), None)

    def to_json(self) -> str:
        return json.dumps(
            {
                "results": [result.to_dict() for result in self.results],
                "logs": self.logs.to_json(),
                "error": self.error.to_json() if self.error else None,
            }
        )

    def _repr_html_(self) -> str:
        return reports.execution(
            stdout="".join(self.logs.stdout),
            stderr="".join(self.logs.stderr),
            results=[vars(result) for result in self.results],
            error=(self.error.name, self.error.value) if self.error else None,
            truncated=self.truncated,
        )


@dataclass(frozen=True, slots=True)
class Context:
    """A named interpreter in the sandbox, with its own variables and directory."""

    id: str
    language: str
    cwd: str


Event = OutputMessage | Result | ExecutionError | int
"""An event while code runs; a number is the count of executions."""


class Recorder:
    """Collects events into an ``Execution``, within ``LOG_LIMIT`` and ``RESULTS_LIMIT``."""

    def __init__(self) -> None:
        self.execution = Execution()
        self._kept = {False: _Tail(LOG_LIMIT), True: _Tail(LOG_LIMIT)}
        self._results_size = 0

    def add(self, event: Event, size: int = 0) -> None:
        """Add an event that took ``size`` bytes on the wire."""
        execution = self.execution
        match event:
            case OutputMessage():
                self._kept[event.error].add(event.line)
            case Result():
                self._results_size += size
                if self._results_size <= RESULTS_LIMIT:
                    execution.results.append(event)
                else:
                    execution.truncated = True
            case ExecutionError():
                execution.error = event
            case int():
                execution.execution_count = event

    def finish(self) -> Execution:
        """Return the execution with its logs."""
        execution = self.execution
        execution.logs = Logs(list(self._kept[False].pieces), list(self._kept[True].pieces))
        execution.truncated |= any(tail.truncated for tail in self._kept.values())
        return execution


class _Tail:
    """The last characters of a stream, in the pieces in which they came."""

    def __init__(self, limit: int) -> None:
        self.pieces: deque[str] = deque()
        self.truncated = False
        self._limit = limit
        self._size = 0

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self._size += len(text)
        while self._size > self._limit:
            self.truncated = True
            first = self.pieces.popleft()
            self._size -= len(first)
            if not self.pieces:  # one piece beyond the limit
                self.pieces.append(first[-self._limit :])
                self._size = self._limit
