"""Runs whole kernels inside sandboxes, for everything that starts kernels by ``jupyter_client``.

``provisioner`` is what Jupyter loads; ``guest`` runs inside the sandbox. What a kernel sends passes
``messages``, which leaves nothing in it that could act in the page.
"""
