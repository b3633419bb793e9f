"""From documents to judged groups."""
