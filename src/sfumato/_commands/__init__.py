"""Public functions behind the commands that join several parts of the library."""
