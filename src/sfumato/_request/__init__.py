"""The data steward's request: values, column roles, requirements and counts, without any record."""
