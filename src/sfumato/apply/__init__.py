"""From a table to the rows of a release: read, count, rewrite, shuffle, write."""
