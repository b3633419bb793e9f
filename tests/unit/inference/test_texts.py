"""Files of each kind become text, and what can't be read is said in one sentence."""

import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.errors import DocumentsError
from precis.inference.parts import split
from precis.inference.texts import find_files, read_text, unwrap
from precis.llm.tokens import estimate_most_tokens

PAGE = """<!doctype html><html><head><title>T</title><style>p {color: red}</style></head><body>
<nav><a href="/">Home</a></nav><h1>The mill</h1>
<p>It was built in <b>1784</b> by <a href="/aldery">Thomas Aldery</a>.</p>
<script>alert(1)</script><ul><li>214 people</li><li>12 looms</li></ul>
<footer>© a firm</footer></body></html>"""

WORD = (
    '<?xml version="1.0"?><w:document '
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
    '<w:p><w:r><w:t xml:space="preserve">It was built in </w:t></w:r><w:r><w:rPr><w:b/></w:rPr>'
    "<w:t>1784</w:t></w:r><w:r><w:t>.</w:t></w:r></w:p><w:p><w:r><w:t>It closed in 1967."
    "</w:t></w:r></w:p></w:body></w:document>"
)


def a_word_file() -> bytes:
    parts = {
        "[Content_Types].xml": '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.'
        'org/package/2006/content-types"><Default Extension="rels" ContentType="application/'
        'vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.'
        'main+xml"/></Types>',
        "_rels/.rels": '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.'
        'org/package/2006/relationships"><Relationship Id="a" Type="http://schemas.openxmlformats'
        '.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/>'
        "</Relationships>",
        "word/document.xml": WORD,
    }
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def a_pdf(lines: list[str], password: str = "") -> bytes:
    """One page with these lines under each other."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    page = writer.add_blank_page(600, 800)
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): font})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    shown = "".join(f"({line}) Tj 0 -14 Td " for line in lines)
    content = DecodedStreamObject()
    content.set_data(f"BT /F1 12 Tf 20 700 Td {shown} ET".encode())
    page[NameObject("/Contents")] = writer._add_object(content)
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    file = BytesIO()
    writer.write(file)
    return file.getvalue()


def read(folder: Path, name: str, content: bytes | str) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_text(path).text


def test_a_page_is_read_without_what_stands_around_it(tmp_path: Path) -> None:
    text = read(tmp_path, "page.html", PAGE)
    assert text.startswith("# The mill")
    assert "It was built in 1784 by Thomas Aldery." in text
    assert "214 people" in text
    for noise in ("Home", "alert", "color", "a firm"):
        assert noise not in text


def test_a_word_file_is_read_by_paragraph(tmp_path: Path) -> None:
    text = read(tmp_path, "letter.docx", a_word_file())
    assert text.split("\n\n") == ["It was built in 1784.", "It closed in 1967."]


def test_the_lines_of_a_pdf_are_joined_to_sentences(tmp_path: Path) -> None:
    lines = [
        "The mill was built in 1784 by Thomas Al-",
        "dery, who had come from Leeds.",
    ]
    assert read(tmp_path, "mill.pdf", a_pdf(lines)) == (
        "The mill was built in 1784 by Thomas Aldery, who had come from Leeds."
    )


def test_headings_items_and_paragraphs_keep_their_lines() -> None:
    text = "# Mill\nA line that goes to the edge of the page\nand goes on.\n- one\n- two\n\nEnd."
    joined = text.replace("page\nand", "page and")
    assert unwrap(text).strip() == joined


def test_a_long_line_is_a_paragraph_of_its_own() -> None:
    long = "word " * 40
    assert unwrap(f"{long}\nNext.").splitlines() == [long.strip(), "Next."]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.pdf", b"%PDF-1.7 nothing", "can't be read as PDF"),
        ("a.docx", b"PK\x03\x04 nothing", "can't be read as a Word file"),
        ("a.txt", b"\n\xff\xfe", "line 2: not UTF-8"),
        ("a.md", b" \n", "holds no text"),
        ("a.txt", b"", "holds no text"),
        ("a.xls", b"1", ".xls can't be read"),
        ("a", b"1", "without a suffix"),
        ("a.pdf", a_pdf(["secret"], "password"), "is encrypted"),
        ("b.pdf", a_pdf([]), "only pictures of pages"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    with pytest.raises(DocumentsError, match=said) as raised:
        read(tmp_path, name, content)
    assert "\n" not in str(raised.value)


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
