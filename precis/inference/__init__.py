"""A trained model in use: files go in, summaries come out, and what they could not keep.

`texts` reads files, `parts` splits what is too long, `summarizer` asks the policy, `facts` says
which questions a summary no longer answers, `precis.commands.summarize` is the command.
"""
