"""The routes about what is stored: volumes, secrets, snapshots, templates and builds."""
