"""The full-text index of `art_e.py`: mails in SQLite, by the number of each."""

import re
import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True)
class Mail:
    """A mail.

    Attributes:
        date: as text that sorts by time.
        people: the addresses of its sender and recipients, with spaces around each.
    """

    sender: str
    date: str
    subject: str
    body: str
    people: str = ""


@dataclass(frozen=True)
class Question:
    """A question, with its answer and the number of the mail that gives it.

    Attributes:
        inbox: the address whose mails are searched; empty for all mails.
        until: the day of the question: later mails are not found; empty for all.
    """

    text: str
    answer: str
    source: int
    inbox: str = ""
    until: str = ""


def index_of(mails, file=":memory:"):
    """Return a new index of some mails, numbered from 0; the caller closes it."""
    columns = "sender, date UNINDEXED, subject, body, people"
    rows = ((number, *vars(one).values()) for number, one in enumerate(mails))
    index = sqlite3.connect(file)
    try:
        index.execute(f"CREATE VIRTUAL TABLE mails USING fts5({columns})")
        index.executemany(
            "INSERT INTO mails (rowid, sender, date, subject, body, people) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            rows,
        )
    except BaseException:  # a mail that can't be read, say
        index.close()
        raise
    return index


def open_file(file):
    """Return the index in a file, to read only; the caller closes it."""
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)


def search(index, keywords, most, question):
    """Return the numbers of the mails that have all the keywords, the best first."""
    words = re.findall(r"\w+", keywords)[:20]
    if not words:
        raise ValueError("the keywords have no word")
    quoted = " ".join(f'"{word}"' for word in words)
    match = f"{{sender subject body}} : ({quoted})"
    if question.inbox:
        match += f' AND people : "{question.inbox}"'
    found = index.execute(
        "SELECT rowid FROM mails WHERE mails MATCH ? AND instr(people, ?) AND date < ?"
        " ORDER BY rank LIMIT ?",
        (match, f" {question.inbox} " if question.inbox else "", question.until or "~", most),
    )
    return [number for (number,) in found]


def mail_of(index, number):
    """Return the mail with a number."""
    columns = "SELECT sender, date, subject, body, people FROM mails WHERE rowid = ?"
    return Mail(*index.execute(columns, (number,)).fetchone())
