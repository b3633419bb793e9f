"""Word and PDF files and archives, made by hand."""

import tarfile
import zipfile
from collections.abc import Sequence
from io import BytesIO

from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

_OFFICE = "http://schemas.openxmlformats.org"
_PACKAGE = f"{_OFFICE}/package/2006"
_MAIN = "vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_PARTS = {
    "[Content_Types].xml": f'<?xml version="1.0"?><Types xmlns="{_PACKAGE}/content-types">'
    '<Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/word/document.xml" ContentType="application/{_MAIN}"/></Types>',
    "_rels/.rels": f'<?xml version="1.0"?><Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="a" Type="{_OFFICE}/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>',
}


def word_file(body: str) -> bytes:
    """A Word file; `body` is what `<w:body>` holds."""
    document = (
        f'<?xml version="1.0"?><w:document xmlns:w="{_OFFICE}/wordprocessingml/2006/main">'
        f"<w:body>{body}</w:body></w:document>"
    )
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**_PARTS, "word/document.xml": document}.items():
            archive.writestr(name, content)
    return file.getvalue()


def pdf(*pages: Sequence[str], password: str = "", times: int = 1) -> bytes:
    """A PDF whose pages have these lines under each other.

    Args:
        times: how often each page's content is repeated.
    """
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): font})
    for lines in pages:
        page = writer.add_blank_page(600, 800)
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        shown = "".join(f"({line}) Tj 0 -14 Td " for line in lines)
        content = DecodedStreamObject()
        content.set_data(b"BT /F1 12 Tf 20 700 Td " + shown.encode() * times + b" ET")
        page[NameObject("/Contents")] = writer._add_object(content.flate_encode())
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    file = BytesIO()
    writer.write(file)
    return file.getvalue()


def tar_of(*files: tuple[str, bytes]) -> bytes:
    """A tar archive of files by name."""
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, BytesIO(content))
    return packed.getvalue()
