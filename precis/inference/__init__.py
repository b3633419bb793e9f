"""A trained model in use: summaries of files, and the facts they lost.

`texts` reads files, `summarizer` asks the policy and splits what is too long, `facts` says which
questions a summary no longer answers, `precis.commands.summarize` is the command.
"""
