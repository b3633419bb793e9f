"""Mails and questions from the Hub for `art_e.py`, loaded into SQLite once.

The columns are those of `corbt/enron-emails` and `corbt/enron_emails_sample_questions`, on which
ART·E was trained; a folder of Parquet files with these columns will do too.
"""

import hashlib
import os
import random
from contextlib import closing
from itertools import chain

import datasets
from art_e_index import Mail, Question, index_of, open_file

from precis.environment import private_home

MAIL = ("message_id", "from", "to", "cc", "bcc", "date", "subject", "body")
QUESTION = ("question", "answer", "message_ids", "inbox_address", "query_date")
SPLITS = ("train", "test")


def hub_inbox(mails, questions, trained_on, held_out):
    """Return the index's file and the questions: first those to train on, then those held out.

    Args:
        mails, questions: names of data sets on the Hub, or paths of folders.
    """
    digest = hashlib.sha256(f"{mails}\n{questions}".encode()).hexdigest()[:16]
    file = private_home() / f"art_e_{digest}.sqlite"
    if not file.exists():
        print(f"{mails} is loaded into {file}, once: of half a million mails that takes minutes.")
        half = file.with_suffix(f".{os.getpid()}")
        try:
            build(half, mails, questions)
            os.replace(half, file)
        finally:
            half.unlink(missing_ok=True)
    found = []
    with closing(open_file(file)) as index:
        for split, most in zip(SPLITS, (trained_on, held_out), strict=True):
            columns = "SELECT text, answer, source, inbox, until FROM questions WHERE split = ?"
            rows = index.execute(f"{columns} ORDER BY number LIMIT ?", (split, most)).fetchall()
            found.append([Question(*row) for row in rows])
    return file, found[0], found[1]


def build(file, mails, questions):
    """Write the index of the mails, and the questions whose mail is among them."""
    numbers = {}
    with closing(index_of(mails_of(mails, numbers), file)) as index:
        index.execute(
            "CREATE TABLE questions (number INTEGER, split TEXT, text TEXT, answer TEXT,"
            " source INTEGER, inbox TEXT, until TEXT)"
        )
        for split in SPLITS:
            asked = []
            for row in rows_of(questions, split, QUESTION):
                sources = row["message_ids"]
                if len(sources) == 1 and sources[0] in numbers:
                    inbox = row["inbox_address"].lower().replace('"', "")
                    until = str(row["query_date"])[:10]
                    answered = (row["question"], row["answer"], numbers[sources[0]])
                    asked.append((split, *answered, inbox, until))
            if not asked:
                raise ValueError(f"no question of {questions} ({split}) has its mail in {mails}")
            random.Random(0).shuffle(asked)
            rows = [(number, *row) for number, row in enumerate(asked)]
            index.executemany("INSERT INTO questions VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        index.commit()


def mails_of(name, numbers):
    """Yield the mails of a data set, and enter each one's number into `numbers` by message id."""
    for row in rows_of(name, "train", MAIL):
        if row["message_id"] in numbers:
            continue
        numbers[row["message_id"]] = len(numbers)
        received = chain(row["to"] or (), row["cc"] or (), row["bcc"] or ())
        people = " ".join(filter(None, (row["from"], *received))).lower()
        sent = str(row["date"] or "")[:19]
        text = (row["from"] or "", sent, row["subject"] or "", row["body"] or "")
        yield Mail(*text, f" {people} ")


def rows_of(name, split, columns):
    """Yield the rows of a data set, which must have some columns."""
    datasets.disable_progress_bars()
    rows = datasets.load_dataset(name, split=split, streaming=True)
    for row in rows:
        missing = [column for column in columns if column not in row]
        if missing:
            raise ValueError(f"{name} ({split}) has no column {missing[0]!r}")
        yield row
