"""What the holder asks: values, roles, requests, counts; no record is looked at here."""
