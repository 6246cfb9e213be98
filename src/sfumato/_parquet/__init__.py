"""Writes Parquet files that hold nothing but their rows: columns of few values are encoded here, others by pyarrow.

A file consists of row groups. A row group has a chunk for each column, and a chunk consists of pages. A chunk does not
depend on its position in the file, so any thread can encode it; only the groups have an order.
"""
