"""Routes for the files of a sandbox."""
