"""Questions for documents without any: written by a model, and filtered by a judge."""
