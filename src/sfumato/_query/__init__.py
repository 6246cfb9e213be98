"""From a question to a number with its error."""
