"""The documents: one task each, with the messages that Précis trains and benchmarks with."""

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from precis.config import DocumentsConfig
from precis.environments.summaries.prompt import summary_messages, summary_tokens_max
from precis.records.documents import Document, load_corpus
from precis.text import WORDS_MAX


class SummaryData(vf.TaskData):
    """A document, and the most words of its summary."""

    document: Document
    """The text and its questions, with golden answers for the judge."""
    words_max: int
    """Longest summary that can earn a reward, in words."""

    @property
    def tokens_max(self) -> int:
        """The most completion tokens, as in Précis."""
        return summary_tokens_max(self.words_max)


class SummaryTask(vf.Task[SummaryData]):
    """A document to summarize, scored by `SummariesEnv`, which shares one judge."""

    @property
    def key(self) -> str:
        """The document's id, since its place in the taskset may change."""
        return self.data.document.id


class SummariesConfig(vf.TasksetConfig):
    """The documents, and the most words of a summary."""

    documents: DocumentsConfig = DocumentsConfig(train_size=40, val_size=20)
    """The setting of Précis: `bundled`, a data set on the Hub or files with RepLiQA's columns, and
    how it is split."""
    part: Literal["train", "validation"] = "train"
    """The documents to train on, or those that are held out."""
    words_max: int = WORDS_MAX
    """Longest summary that can earn a reward, in words."""


class SummariesTaskset(vf.Taskset[SummaryTask, SummariesConfig]):
    """The documents of one part of the split, in its order."""

    def load(self) -> Iterator[SummaryTask]:
        """Yield one task a document.

        Raises:
            DocumentsError: they can't be read, or are too few for the split.
        """
        corpus = load_corpus(self.config.documents)
        documents = corpus.train if self.config.part == "train" else corpus.validation
        words_max = self.config.words_max
        for document in documents:
            system, user = summary_messages(document.text, words_max)
            data = SummaryData(
                id=document.id,
                name=f"{document.topic}: {document.id}",
                system_prompt=system["content"],
                prompt=user["content"],
                document=document,
                words_max=words_max,
            )
            yield SummaryTask(data, self.config.task)
