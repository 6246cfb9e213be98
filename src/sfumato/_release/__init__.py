"""Writes the files of a release, and reads them as untrusted input."""
