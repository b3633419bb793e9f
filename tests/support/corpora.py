"""A corpus in small, in the columns of RepLiQA."""

import json
from pathlib import Path
from typing import Any

from precis.config import DocumentsConfig
from precis.records.documents import Corpus, group, read_documents, split
from precis.records.rows import CorpusRow

Rows = list[dict[str, Any]]
BUNDLED = read_documents(DocumentsConfig(source="bundled"))


def rows(documents: int = 4, questions: int = 2) -> Rows:
    return [
        {
            "document_id": f"d{document}",
            "document_topic": "Local News",
            "document_path": "",
            "document_extracted": f"Text of document {document}.",
            "question_id": f"d{document}-q{question}",
            "question": f"What is {question}?",
            "answer": f"answer {question}",
            "long_answer": "",
        }
        for document in range(documents)
        for question in range(questions)
    ]


def write_jsonl(path: Path, content: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    return path


def source(path: Path, **sizes: int) -> DocumentsConfig:
    return DocumentsConfig.model_validate(
        {"source": str(path), "train_size": 3, "val_size": 1, **sizes}
    )


def corpus(documents: int = 10, seed: int = 1) -> Corpus:
    config = DocumentsConfig(train_size=documents - 2, val_size=2, seed=seed)
    content = (CorpusRow("memory", at, row) for at, row in enumerate(rows(documents), start=1))
    return split(group(content), config)
