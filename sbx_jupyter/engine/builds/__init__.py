"""Makes templates: build requests, their steps in real sandboxes, layers, images and tags."""
