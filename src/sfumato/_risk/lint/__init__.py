"""Finds what a published table discloses beside its values: by order, file metadata, digits and other files."""
