"""SentencePiece vocabularies: text to token ids and back, in the graph.

Ids are T5's: 0 padding, 1 end, 2 unknown. T5's own vocabulary of 32,000 pieces is
followed by 100 sentinels, `<extra_id_0>` being the last id, 32,099.
"""

import functools
import os
from collections.abc import Sequence

import numpy as np
import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text

from tfds_tasks import nano

PAD, END, UNKNOWN = 0, 1, 2
SENTINELS = 100  # of T5's vocabulary
Tokenizer = tf_text.SentencepieceTokenizer
FILES = ("assets/tokenizer/vocabulary.spm", "vocabulary.spm", "spiece.model")


class Vocabulary:
    """A SentencePiece model, with `sentinels` more ids after its pieces.

    Args:
        model: the content of a SentencePiece file, bytes.
        name: what errors call it, such as its path.
        sentinels: ids after the pieces; by default T5's 100, unless the model has
            them among its pieces.

    >>> words = get_vocabulary("nano")
    >>> ids = words.encode(["yes", "no"])  # a ragged tensor, without the end token
    >>> words.decode(ids).numpy().tolist()
    [b'yes', b'no']
    """

    def __init__(self, model: bytes, name: str, sentinels: int | None = None):
        self.name, self._model = name, model
        try:
            self.pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise ValueError(f"{name}: not a SentencePiece model") from error
        special = [self.pieces.pad_id(), self.pieces.eos_id(), self.pieces.unk_id()]
        if special != [PAD, END, UNKNOWN]:
            raise ValueError(
                f"{name}: pad, end and unknown have ids {special}, "
                f"expected {[PAD, END, UNKNOWN]} as in T5"
            )
        if sentinels is None:
            inside = self.pieces.piece_to_id("<extra_id_0>") != UNKNOWN
            sentinels = 0 if inside else SENTINELS
        self.sentinels = sentinels

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of TensorFlow Text, made anew for each use.

        One that is kept dies with TensorFlow's kernels, which setting the random seed
        throws away.
        """
        return Tokenizer(self._model)

    @property
    def num_pieces(self) -> int:
        """How many pieces the SentencePiece model has."""
        return self.pieces.vocab_size()

    @property
    def size(self) -> int:
        """The number of ids; a model's table must have at least as many rows."""
        return self.num_pieces + self.sentinels

    def __repr__(self) -> str:
        return f"Vocabulary({self.name!r}, size={self.size})"

    def check_fits(self, vocab_size: int) -> None:
        """Raises if a model with `vocab_size` rows was not made for this vocabulary."""
        if self.rows(vocab_size) != vocab_size:
            raise ValueError(
                f"vocabulary {self.name} has {self.size} ids, the model's table "
                f"{vocab_size} rows; expected {self.size} to {self.rows()}"
            )

    def rows(self, wished: int = 0) -> int:
        """Returns how many rows a table for it should have: as wished, if that fits."""
        room = -(-self.size // 128) * 128  # T5 pads its table to a multiple of 128
        fits = self.size <= wished <= max(room, self.size + 1024)
        return wished if fits else room

    def encode(
        self, texts: tf.Tensor | Sequence[str], tokenizer: Tokenizer | None = None
    ) -> tf.RaggedTensor:
        """Turns strings [batch] into ragged ids [batch, (length)], int32.

        A graph that is saved must hold the `tokenizer` that it uses, and gives it here.
        """
        return (tokenizer or self.tokenizer).tokenize(texts)

    def decode(
        self,
        ids: tf.Tensor | tf.RaggedTensor,
        tokenizer: Tokenizer | None = None,
    ) -> tf.Tensor:
        """Turns ids [batch, length] (or ragged) into strings, up to the end token."""
        tokenizer = tokenizer or self.tokenizer
        if not isinstance(ids, tf.RaggedTensor):
            ids = tf.RaggedTensor.from_tensor(tf.cast(ids, tf.int32))
        before_end = tf.ragged.map_flat_values(tf.equal, ids, END)
        ended = tf.cumsum(tf.cast(before_end.to_tensor(False), tf.int32), axis=1)
        kept = tf.RaggedTensor.from_tensor(ended, lengths=ids.row_lengths()) == 0
        ids = tf.ragged.boolean_mask(ids, kept & (ids != PAD))
        if not self.sentinels:
            return tokenizer.detokenize(tf.minimum(ids, self.num_pieces - 1))
        return self._decode_with_sentinels(ids, tokenizer)

    def _decode_with_sentinels(
        self, ids: tf.RaggedTensor, tokenizer: Tokenizer
    ) -> tf.Tensor:
        """Rows that have sentinels are put together piece by piece."""
        sentinel = ids >= self.num_pieces
        known = tf.where(sentinel, UNKNOWN, ids)
        pieces = tokenizer.id_to_string(known)
        number = tf.strings.as_string(self.size - 1 - ids)
        written = tf.strings.join(["\u2581<extra_id_", number, ">\u2581"])
        joined = tf.strings.reduce_join(tf.where(sentinel, written, pieces), axis=1)
        joined = tf.strings.regex_replace(joined, "(\u2581| )+", " ")
        return tf.where(
            tf.reduce_any(sentinel, axis=1),
            tf.strings.strip(joined),
            tokenizer.detokenize(known),
        )

    def texts(self, ids: np.ndarray) -> list[str]:
        """Turns ids of generated rows, numpy [batch, length], into a list of str."""
        return [t.decode("utf-8", "replace") for t in self.decode(ids).numpy()]


@functools.cache
def get_vocabulary(name: str) -> Vocabulary:
    """Returns the vocabulary of a name or path.

    Args:
        name: "nano", the small one that ships; a SentencePiece file; a folder that
            has one (a KerasHub preset, a Hugging Face model); or the name of a
            KerasHub preset of T5.
    """
    if name == "nano":
        return Vocabulary(_read(nano.VOCABULARY), "nano", sentinels=0)
    if os.path.isfile(name):
        return Vocabulary(_read(name), name)
    if os.path.isdir(name):
        return Vocabulary(_read(_file_inside(name)), name)
    return Vocabulary(_preset(name), name)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def is_beside(path: str) -> bool:
    """Tells whether a folder, such as one of weights, has a vocabulary in it."""
    return any(os.path.isfile(os.path.join(path, file)) for file in FILES)


def _file_inside(folder: str) -> str:
    for file in FILES:
        if os.path.isfile(path := os.path.join(folder, file)):
            return path
    raise FileNotFoundError(
        f"vocabulary {folder!r}: the folder has none of {', '.join(FILES)}"
    )


def _preset(name: str) -> bytes:
    """The model inside a KerasHub preset, which KerasHub may have to download."""
    from keras_hub.tokenizers import T5Tokenizer  # slow to import

    if name not in T5Tokenizer.presets and "://" not in name:
        presets = ", ".join(sorted(T5Tokenizer.presets))
        raise FileNotFoundError(
            f"vocabulary {name!r}: expected 'nano', a SentencePiece file, or a "
            f"KerasHub preset (a folder, or one of {presets})"
        )
    return T5Tokenizer.from_preset(name).proto
