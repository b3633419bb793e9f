"""Any server of language models that speaks OpenAI's API: how it is asked, within which limits."""
