"""Public functions for those commands that use several parts of the library."""
