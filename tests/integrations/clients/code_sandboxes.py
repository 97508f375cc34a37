"""code-sandboxes: the same code against any provider, here against the interface."""

from __future__ import annotations

from code_sandboxes import Sandbox

with Sandbox.create(variant="e2b") as sandbox:
    done = sandbox.run_code("x = 20\nprint('printed')\nx + 22")
    assert "printed" in done.stdout, done
    assert "42" in str(done.results), done
    assert "20" in sandbox.run_code("print(x)").stdout
    failed = sandbox.run_code("1 / 0")
    assert "ZeroDivisionError" in str(failed), failed
    sandbox.files.write("/home/user/notes.txt", "kept")
    assert sandbox.files.read("/home/user/notes.txt") == "kept"
    assert sandbox.commands.run("echo shell").stdout.strip() == "shell"
