"""The cause of a process's failure, in one sentence, from its output.

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
_OUT_OF_MEMORY = (
    r"CUDA out of memory\. Tried to allocate (?P<wanted>[\d.]+ \w+)\..*?"
    r"total capacity of (?P<total>[\d.]+ \w+) of which (?P<free>[\d.]+ \w+) is free"
)
_IN_OUR_WORDS = (
    (
        r"Free memory on device.*?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\).*?"
        r"\((?P<share>[\d.]+), (?P<wanted>[\d.]+) GiB\)",
        "The GPU's memory is taken: {free} of {total} GiB were free, and vLLM was to take {wanted} "
        "GiB (trainer.engine.gpu_memory_share: {share}). End what else uses the GPU, or lower that "
        "share.",
    ),
    (
        _OUT_OF_MEMORY + r".*?(?P<allowed>[\d.]+ \w+) allowed",
        "The training is out of memory: it may take {allowed} of the GPU's {total}, since the rest "
        "is vLLM's, and {wanted} more were asked for. Lower trainer.engine.packed_tokens, or "
        "trainer.engine.gpu_memory_share, which is vLLM's.",
    ),
    (
        _OUT_OF_MEMORY,
        "The GPU is out of memory: {free} of {total} were free, and {wanted} more were asked for. "
        "Lower trainer.engine.tokens_max, or trainer.engine.gpu_memory_share, which is vLLM's.",
    ),
    (
        r"max seq len \((?P<tokens>\d+)\).*?\(?(?P<wanted>[\d.]+) GiB KV cache is needed.*?"
        r"available KV cache memory \((?P<free>[\d.]+) GiB\)",
        "vLLM has {free} GiB of the GPU left for its cache, and one request of {tokens} tokens "
        "takes {wanted} GiB. Raise trainer.engine.gpu_memory_share, or lower "
        "trainer.engine.tokens_max.",
    ),
    (
        r"No available memory for the cache blocks",
        "The model leaves vLLM no memory of the GPU for its cache. Raise "
        "trainer.engine.gpu_memory_share.",
    ),
)
"""Messages about a lack of memory, each with the sentence that replaces it, which has the free
memory and the setting to change. The first match counts."""


def cause_of(failure: str, log: str = "") -> str:
    """Return one sentence with the cause of a failure.

    Args:
        failure: the caught exception, as `Type: message`; empty if there is only a log.
        log: the output of the process and its children since it, or the work, began.
    """
    if failure and not _ELSEWHERE.search(failure):
        return _in_our_words(failure)
    return _in_our_words(cause_in(log, failure))


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


def _in_our_words(failure: str) -> str:
    """Return the failure, or for a lack of memory the free memory and the setting to change."""
    for said, words in _IN_OUR_WORDS:
        found = re.search(said, failure)
        if found:
            return words.format(**found.groupdict())
    return failure
