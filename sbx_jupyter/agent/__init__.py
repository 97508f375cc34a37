"""The agent: PID 1 of a sandbox, with the standard library only. It is forked from the zygote.

``main.py`` starts it, ``loop.py`` answers the engine; ``files/`` and ``processes/`` do the work.
Its messages are in ``protocol/agent.py``: an agent must understand the engines that follow its own.
"""
