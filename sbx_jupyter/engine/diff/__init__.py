"""What a sandbox changed, read from its layers."""
