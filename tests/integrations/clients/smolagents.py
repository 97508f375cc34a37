"""smolagents: an agent's Python executor, which keeps its variables in a kernel."""

from __future__ import annotations

from named_checks import check
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import E2BExecutor

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg"
    "=="
)

executor = E2BExecutor([], AgentLogger(level=LogLevel.ERROR), template="code-interpreter-v1")
try:
    with check("code_with_variables"):
        executor.send_variables({"number": 20, "words": ["a", "b"]})
        answered = executor("print('printed')\nnumber + 22")
        assert (str(answered.output), answered.is_final_answer) == ("42", False), answered
        assert "printed" in answered.logs, answered
    with check("variables_stay"):
        assert str(executor("len(words)").output) == "2"
    with check("errors"):
        try:
            executor("1 / 0")
        except Exception as error:  # of its own class
            assert "ZeroDivisionError" in str(error), error
        else:
            raise AssertionError("an error of the code is lost")
    with check("images"):
        shown = executor(
            "import base64\nfrom IPython.display import Image\n"
            f"Image(base64.b64decode('{PNG}'), format='png')"
        )
        assert shown.output.size == (1, 1), shown
finally:
    executor.cleanup()
