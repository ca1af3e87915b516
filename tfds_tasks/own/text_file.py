"""Text files, local or remote, packed or not: by some letters, or line by line."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import tensorflow as tf

BLOCK = 2**16  # bytes read at a time
UTF_16 = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def open_binary(path: str) -> BinaryIO:
    """Opens a local or remote file, unpacked if it is .gz."""
    file = tf.io.gfile.GFile(path, "rb") if "://" in path else io.FileIO(path)
    if path.lower().endswith(".gz"):
        return gzip.open(file)
    return file if "://" in path else io.BufferedReader(file)


def lines(path: str, encoding: str) -> Iterator[str]:
    """Reads the decoded lines of a file, with their ends."""
    rest = ""
    for chunk in chunks(path, encoding):
        *whole, rest = (rest + chunk).split("\n")
        for line in whole:
            yield line + "\n"
    if rest:
        yield rest


def chunks(path: str, encoding: str) -> Iterator[str]:
    """Reads the decoded text of a file, some letters at a time.

    What cannot be read raises a ValueError that names the line, and the letter in it.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    line, letters = 1, 0
    for number, raw in enumerate(_blocks(path)):
        if not number and not encoding.lower().startswith(("utf-16", "utf-32")):
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            text = decoder.decode(raw, final=not raw)
        except UnicodeError as error:
            good, problem = _broken(error, encoding)
            line, letters = _moved(line, letters, good)
            hint = UTF_16.get(raw[:2], "latin-1")
            raise ValueError(
                f"{path}, line {line}, column {letters + 1}: {problem}; say the file's "
                f'encoding, such as encoding = "{hint}"'
            ) from None
        line, letters = _moved(line, letters, text)
        yield text


def _blocks(path: str) -> Iterator[bytes]:
    """The bytes of a file; the last block is empty."""
    try:
        with open_binary(path) as file:
            while block := file.read(BLOCK):
                yield block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: not a whole .gz file ({error})") from None
    except tf.errors.OpError as error:
        raise OSError(f"{path}: {error.message}") from None
    yield b""


def _broken(error: UnicodeError, encoding: str) -> tuple[str, str]:
    """The text before what is broken, and what that is."""
    if not isinstance(error, UnicodeDecodeError):
        return "", str(error)
    good = error.object[: error.start].decode(encoding, "ignore")
    return good, f"byte 0x{error.object[error.start]:02x} is not {encoding}"


def _moved(line: int, letters: int, text: str) -> tuple[int, int]:
    """The place after some more text: its line, and the letters before it in that."""
    ends = text.count("\n")
    if not ends:
        return line, letters + len(text)
    return line + ends, len(text) - text.rfind("\n") - 1
