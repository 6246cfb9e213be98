"""Public functions that do what a command does, where a command joins several parts of the library."""
