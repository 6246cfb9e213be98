"""What a record of a release shows: a value, a set of values or a bucket; how it is written, read and counted."""
