"""One document for each result, built once from blocks, and rendered as HTML, JSON, in a terminal or in a notebook."""
