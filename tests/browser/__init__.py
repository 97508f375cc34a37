"""The panels and widgets in a real browser, on a real Jupyter server and engine.

Run on their own (``pytest tests/browser --confcutdir=tests/browser``): Playwright keeps an event
loop running that other tests' fixtures cannot share.
"""
