"""Trains the vocabulary of the nano tasks on their training text.

    python -m tfds_tasks.nano.make_vocabulary --output=spiece.model

Ids are T5's: 0 padding, 1 end, 2 unknown. Text of any other kind is spelled in bytes.
"""

import io
import tempfile
from collections.abc import Iterator

import sentencepiece
from absl import app, flags
from sentencepiece import sentencepiece_model_pb2

from tfds_tasks.nano import VOCABULARY, families
from tfds_tasks.nano.forms import TASKS, to_text

FLAGS = flags.FLAGS
flags.DEFINE_string("output", VOCABULARY, "Where the SentencePiece model goes.")

ROWS = 1000  # of each task: enough to meet every word many times
SIZE = 600  # at most; 100 sentinels more still fit the table of t5-nano
# Text is left as it is: the one rule is of characters that no text has (private use).
# Without any, SentencePiece says so on stderr whenever it loads the model.
RULES = "E000\tE001\n"


def lines() -> Iterator[str]:
    """Yields the inputs and targets of the first training rows of all tasks.

    Colons stand apart, or pieces would be learned that end in one.
    """
    for task in TASKS:
        for row in families.rows(task, "train")[:ROWS]:
            for text in to_text(task, row):
                yield text.replace(":", " :")


def rules() -> bytes:
    """Returns `RULES` as SentencePiece keeps them in a model."""
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.write(RULES)
        file.flush()
        normalizer = sentencepiece.SentencePieceNormalizer(rule_tsv=file.name)
    model = normalizer.serialized_model_proto()
    model = sentencepiece_model_pb2.ModelProto.FromString(model)
    return model.normalizer_spec.precompiled_charsmap


def train() -> bytes:
    """Trains a SentencePiece model and returns its bytes, the same ones every time."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines(),
        model_writer=model,
        model_type="unigram",
        vocab_size=SIZE,
        hard_vocab_limit=False,
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",  # its table would be most of the file
        character_coverage=1.0,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    trained = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    trained.normalizer_spec.precompiled_charsmap = rules()
    return trained.SerializeToString(deterministic=True)


def main(argv: list[str]) -> None:
    """Writes the model where --output says."""
    del argv
    with open(FLAGS.output, "wb") as file:
        file.write(train())
    pieces = sentencepiece.SentencePieceProcessor(model_file=FLAGS.output)
    print(f"{FLAGS.output}: {pieces.vocab_size()} pieces")


if __name__ == "__main__":
    app.run(main)
