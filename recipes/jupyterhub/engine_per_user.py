"""jupyterhub_config.py: an engine for each user, which their server starts and ends."""

c = get_config()  # noqa: F821

# The sandboxes of a user end when the hub stops their server. Without this line they go on, and an
# engine ends by itself once it has held no sandbox for ten minutes.
c.Spawner.args = ["--SbxExtension.stop_with_server=True"]
