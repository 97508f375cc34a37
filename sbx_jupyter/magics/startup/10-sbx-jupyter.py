# Installed with sbx-jupyter, and run by each kernel that starts in this environment. If a notebook
# said "%sbx default on" before its kernel was restarted, its cells go on to run in the sandbox.
try:
    from sbx_jupyter.magics.kernel_restart import resume as _sbx_resume
except ImportError:
    pass
else:
    # IPython puts the name there.
    _sbx_resume(get_ipython())  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
    del _sbx_resume
