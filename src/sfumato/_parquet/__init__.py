"""Parquet files that say nothing but their rows: columns of few values are packed here, and the rest by pyarrow.

A file is made of groups of rows, a group of chunks, one for each column, and a chunk of pages. No chunk knows where in
the file it will be, so that any thread makes it; only putting groups one after the other has an order.
"""
