"""What is about summaries: the prompt, what disqualifies one, and baselines."""
