"""The types of what operations of the agent take and return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Body = dict[str, Any]
"""The fields of a request or of an answer (``protocol/agent.py``)."""

Answer = tuple[Body, Sequence[int]]
"""The fields of the answer, and the descriptors that go with it."""

Operation = Callable[[Body], Answer]
