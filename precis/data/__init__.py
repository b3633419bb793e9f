"""The bundled corpus: fictional documents in the schema of RepLiQA, made by the seeded program in
`git show 4f7803fb:tools/corpus`."""
