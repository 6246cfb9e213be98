"""What a published table gives away beside its values: by its order, its file, its digits and what lies beside it."""
