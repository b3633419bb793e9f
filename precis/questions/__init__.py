"""Questions for documents that come without: written by a model, and kept where they are of use."""
