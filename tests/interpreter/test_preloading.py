"""Contexts are forked from a process that has imported what the sandbox names."""

from __future__ import annotations

from sbx_jupyter.client import ConnectionConfig, Sandbox


def test_contexts_have_the_modules_imported_that_the_sandbox_names(shared_engine):
    config = ConnectionConfig.from_connection_file(shared_engine.connection)
    envs = {"SBX_PRELOAD": "numpy, matplotlib, no_such_module"}
    code = (
        "import sys\n"
        "there = [m for m in ('numpy', 'matplotlib', 'matplotlib.pyplot') if m in sys.modules]\n"
        "import numpy, matplotlib\n"
        "print(there, numpy.random.random())\n"
        "matplotlib.get_backend()"
    )
    with Sandbox.create(config=config, timeout=120, envs=envs) as sandbox:
        first = sandbox.run_code(code)
        second = sandbox.run_code(code, context=sandbox.create_code_context())
        drawn = sandbox.run_code("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
        picture = sandbox.run_code("from PIL import Image; Image.new('L', (1, 1)).show()")
        other = sandbox.run_code("echo ${MPLBACKEND-none}", "bash")

    assert first.error is None
    assert second.error is None
    assert first.logs.stdout[0].startswith("['numpy', 'matplotlib'] 0.")
    assert first.logs.stdout != second.logs.stdout
    assert "inline" in str(first.text)
    assert any(result.png for result in drawn.results)
    assert other.logs.stdout == ["none\n"]
    assert [bool(result.png) for result in picture.results] == [True]
