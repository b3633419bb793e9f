"""A trained model in use: files go in, summaries come out, and what they could not keep.

`texts` reads files, `summarizer` asks the policy and splits what is too long, `facts` says which
questions a summary no longer answers, `precis.commands.summarize` is the command.
"""
