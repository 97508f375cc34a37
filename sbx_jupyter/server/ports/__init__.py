"""Pages and services of sandboxes below this server's base URL."""
