"""Files of each kind become text, and what can't be read is said in one sentence."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.errors import DocumentsError
from precis.inference.prose import prose
from precis.inference.summarizer import _cut_by_words, split
from precis.inference.texts import Text, find_files, kind_of, read_content, unwrap
from precis.llm.tokens import estimate_most_tokens
from tests.support.files import pdf, word_file

PAGE = """<!doctype html><html><head><title>T</title><style>p {color: red}</style></head><body>
<nav><a href="/">Home</a></nav><h1>The mill</h1>
<p>It was built in <b>1784</b> by <a href="/aldery">Thomas Aldery</a>.</p>
<script>alert(1)</script><ul><li>214 people</li><li>12 looms</li></ul>
<footer>© a firm</footer></body></html>"""

WORD = (
    '<w:p><w:r><w:t xml:space="preserve">It was built in </w:t></w:r><w:r><w:rPr><w:b/></w:rPr>'
    "<w:t>1784</w:t></w:r><w:r><w:t>.</w:t></w:r></w:p><w:p><w:r><w:t>It closed in 1967."
    "</w:t></w:r></w:p>"
)


def a_text(name: str, content: bytes | str) -> Text:
    encoded = content.encode() if isinstance(content, str) else content
    return read_content(name, kind_of(Path(name), encoded), encoded)


def read(name: str, content: bytes | str) -> str:
    return a_text(name, content).text


def test_a_page_is_read_without_what_stands_around_it() -> None:
    text = read("page.html", PAGE)
    assert text.startswith("# The mill")
    assert "It was built in 1784 by Thomas Aldery." in text
    assert "214 people" in text
    for noise in ("Home", "alert", "color", "a firm"):
        assert noise not in text
    letter = read("letter.docx", word_file(WORD))
    assert letter.split("\n\n") == ["It was built in 1784.", "It closed in 1967."]


def test_lines_are_joined_to_paragraphs_but_for_headings_and_items() -> None:
    text = "# Mill\nA line that goes to the edge of the page\nand goes on.\n- one\n- two\n\nEnd."
    assert unwrap(text).strip() == text.replace("page\nand", "page and")
    long = "word " * 40
    assert unwrap(f"{long}\nNext.").splitlines() == [long.strip(), "Next."]
    hyphenated = ["The mill was built in 1784 by Thomas Al-", "dery, who had come from Leeds."]
    joined = "The mill was built in 1784 by Thomas Aldery, who had come from Leeds."
    assert read("mill.pdf", pdf(hyphenated)) == joined


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.pdf", b"%PDF-1.7 nothing", "can't be read as PDF"),
        ("a.docx", b"PK\x03\x04 nothing", "can't be read as a Word file"),
        ("a.txt", b"\n\xff\xfe", "line 2: not UTF-8"),
        ("a.txt", b"%PDF-1.7\nThe mill was built.", "Give the file a name that ends in .pdf"),
        ("a.md", b"PK\x03\x04 nothing", "is an archive, .* Give a Word file a name that ends in"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\x00\x00", "is binary data"),
        ("a.txt", "The mill".encode("utf-16-le"), "Convert a text to UTF-8"),
        ("a.md", b" \n", "holds no text"),
        ("a.txt", b"", "holds no text"),
        ("a.xls", b"1", ".xls can't be read"),
        ("a", b"1", "without a suffix"),
        ("a.pdf", pdf(["secret"], password="password"), "is encrypted"),
        ("b.pdf", pdf([]), "only pictures of pages"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(name: str, content: bytes, said: str) -> None:
    with pytest.raises(DocumentsError, match=said) as raised:
        read(name, content)
    assert "\n" not in str(raised.value)


def test_pages_are_read_without_what_they_all_begin_and_end_with() -> None:
    pages = []
    for number in range(1, 7):
        head = "The Mill at Leeds" if number % 2 else "Chapter 3: Looms"
        body = [f"The mill had {number}00 looms in that", f"year, said the clerk {number}."]
        pages.append([head, *body, f"Page {number} of 6"])
    text = a_text("book.pdf", pdf(*pages))
    sentences = [f"The mill had {n}00 looms in that year, said the clerk {n}." for n in range(1, 7)]
    assert text.text.split("\n\n") == sentences
    assert text.prose.splitlines() == sentences


def test_a_sentence_goes_on_on_the_next_page() -> None:
    first = ["The Mill", "It was built in 1784 by Thomas"]
    second = ["The Mill", "aldery, a weaver from Leeds."]
    text = read("mill.pdf", pdf(first, second, ["The Mill", "It closed in 1967."]))
    assert (
        text == "It was built in 1784 by Thomas aldery, a weaver from Leeds.\n\nIt closed in 1967."
    )


@pytest.mark.parametrize(
    ("name", "content", "sentences"),
    [
        ("a.md", "Title\n=====\n\nIt *was* `built`. It\nclosed.", ["It was built. It closed."]),
        ("a.md", "- 214 people\n- It was sold.\n1. It burnt!", ["It was sold.", "It burnt!"]),
        ("a.md", "It was built.[^1]\n\n[^1]: By a weaver.", ["It was built.", "By a weaver."]),
        ("a.md", "<div><p>It <i>was</i> built &amp; sold.</p></div>", ["It was built & sold."]),
        ("a.md", "<script>\nlet mill = 'It was built.'\n</script>\n\nIt burnt.", ["It burnt."]),
        ("a.md", "![A wheel.](wheel.png) It stood.<br>It fell.", ["It stood.", "It fell."]),
        ("a.html", PAGE, ["It was built in 1784 by Thomas Aldery."]),
        ("a.docx", word_file(WORD), ["It was built in 1784.", "It closed in 1967."]),
        ("a.txt", "THE MILL\n\nIt was built.\n\nAda   36   Leeds.", ["It was built."]),
        ("a.pdf", pdf(["3.1 Looms", "It made 2*3*4 yards of a_b_c."]),
         ["It made 2*3*4 yards of a_b_c."]),
        ("a.pdf", pdf([r"It was the \256rst \257oor."]), ["It was the first floor."]),  # ﬁ and ﬂ
        ("a.txt", "milk\n\neggs\n\nbread", ["milk", "eggs", "bread"]),
        ("a.md", "# Only\n\n## headings", ["Only", "headings"]),
        ("a.md", "It was «built». \u201cIt burnt.\u201d", ["It was «built». “It burnt.”"]),
    ],
)  # fmt: skip
def test_sentences_are_what_is_left_without_headings_tables_code_and_marks(
    name: str, content: bytes | str, sentences: list[str]
) -> None:
    assert a_text(name, content).prose.splitlines() == sentences


@given(st.text(max_size=300))
def test_a_text_that_says_something_has_prose(text: str) -> None:
    assert bool(prose(text).strip()) == bool(text.strip())


def test_a_folder_is_all_its_files_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / ".git").mkdir()
    empty = tmp_path / "empty"
    empty.mkdir()
    for name in ("b.md", "a.txt", "in/c.pdf", "picture.png", ".git/d.txt"):
        (tmp_path / name).touch()
    assert [file.name for file in find_files([tmp_path])] == ["a.txt", "b.md", "c.pdf"]
    with pytest.raises(DocumentsError, match="holds no"):
        find_files([empty])


@given(st.text(alphabet="ab \n.漢", max_size=400), st.integers(3, 60))
def test_parts_hold_every_word_and_none_is_too_long(text: str, tokens_max: int) -> None:
    parts = split(text, tokens_max)
    assert all(estimate_most_tokens(part) <= tokens_max for part in parts)
    kept = "".join("".join(part.split()) for part in parts)
    assert kept == "".join(text.split())


@pytest.mark.parametrize("cut", [split, _cut_by_words])
def test_a_word_as_long_as_a_file_is_cut_in_seconds(cut: Callable[[str, int], list[str]]) -> None:
    """In a time that grew with the square of its length it took 11 s and 48 s."""

    def seconds(length: int) -> float:
        word = "a" * length
        began = time.process_time()
        assert sum(len(part.replace(" ", "")) for part in cut(word, 20)) == length
        return time.process_time() - began

    assert seconds(3_200_000) < 1 + 40 * seconds(200_000), "16 times as long is expected, not 256"
