"""Files and databases beside Parquet and CSV: one module each, which gives batches of Arrow or a stream of them."""
