"""How a sandbox is fenced on this kernel: namespaces, or Landlock, and limits."""
