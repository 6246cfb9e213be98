"""Finds what a published table discloses by its row order, file metadata, digits and other files."""
