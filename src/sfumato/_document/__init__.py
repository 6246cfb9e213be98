"""Each result has one document of blocks, which is rendered as HTML or JSON, in a terminal or in a notebook."""
