"""The bundled corpus: fictional documents in RepLiQA's schema, and the program that makes them."""
