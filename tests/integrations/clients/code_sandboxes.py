"""code-sandboxes: the same code against any provider, here against the interface."""

from __future__ import annotations

from code_sandboxes import Sandbox
from named_checks import check

with Sandbox.create(variant="e2b") as sandbox:
    with check("code"):
        done = sandbox.run_code("x = 20\nprint('printed')\nx + 22")
        assert "printed" in done.stdout, done
        assert "42" in str(done.results), done
    with check("variables_stay"):
        assert "20" in sandbox.run_code("print(x)").stdout
    with check("errors"):
        failed = sandbox.run_code("1 / 0")
        assert "ZeroDivisionError" in str(failed), failed
    with check("files"):
        sandbox.files.write("/home/user/notes.txt", "kept")
        assert sandbox.files.read("/home/user/notes.txt") == "kept"
    with check("commands"):
        assert sandbox.commands.run("echo shell").stdout.strip() == "shell"
