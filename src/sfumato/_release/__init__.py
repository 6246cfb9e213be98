"""The files of a release: written whole, read with suspicion."""
