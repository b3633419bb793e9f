"""The cause of a process's failure, from its output.

vLLM and ART end with an exception that only refers to another one (`Engine core initialization
failed. See root cause above.`), after hundreds of lines; this finds that one.
"""

import re

_PREFIX = re.compile(r"^\([\w:]+ pid=\d+\) (?:[A-Z]+ [\d-]+ [\d:]+ \[[^\]]*\] ?)?")
"""vLLM's prefix of each line of its processes' output."""
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Refused|Lost|Conflict): \S.*"
)
_ELSEWHERE = re.compile(r"root cause|^RuntimeError: Child process\b")
_ADVICE = (
    (
        r"Free memory on device",
        "End what else uses the GPU, or lower trainer.engine.gpu_memory_share.",
    ),
    (
        r"CUDA out of memory",
        "Lower trainer.engine.packed_tokens for training, and tokens_max or gpu_memory_share for "
        "vLLM.",
    ),
    (
        r"KV cache is needed|memory for the cache blocks",
        "Raise trainer.engine.gpu_memory_share, or lower trainer.engine.tokens_max.",
    ),
    (r"No space left on device", "Free some space on the trainer's disk and start it again."),
)
"""Parts of messages about a lack of memory or disk space, each with what to do. The first match
counts."""


def cause_of(failure: str, log: str = "") -> str:
    """Return the cause of a failure, and for a lack of memory or disk space what to do.

    Args:
        failure: the caught exception, as `Type: message`; empty if there is only a log.
        log: the output of the process and its children since it, or the work, began.
    """
    cause = failure if failure and not _ELSEWHERE.search(failure) else cause_in(log, failure)
    for said, advice in _ADVICE:
        if re.search(said, cause):
            return f"{cause.rstrip('.')}. {advice}"
    return cause


def cause_in(log: str, failure: str = "") -> str:
    """Return the cause in its original words, for a process that has none of our settings. If the
    log has no exception, that is `failure`, or without one the log's last line."""
    raised = ""
    last = ""
    for printed in log.splitlines():
        line = _PREFIX.sub("", printed).rstrip()
        last = line or last
        if _EXCEPTION.match(line) and not _ELSEWHERE.search(line):
            raised = line
    return raised or failure or last or "It printed nothing."
