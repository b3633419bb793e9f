"""Training a language model on a GPU: ART's LocalBackend with a learner and packing of our own."""
