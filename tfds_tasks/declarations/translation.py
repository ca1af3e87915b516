"""Translation out of English, as T5 writes it."""

import tensorflow as tf

from tfds_tasks.formats import Format, Row, Tensors
from tfds_tasks.registry import register
from tfds_tasks.scores import Text, bleu
from tfds_tasks.style import Style
from tfds_tasks.task import Task


def _to(code: str, language: str) -> Format:
    def format(row: Row, style: Style) -> Tensors:
        words = f"translate English to {language}: " if style.prefix else ""
        return {"inputs": tf.strings.join([words, row["en"]]), "targets": row[code]}

    return format


def _translation(name: str, source: str, code: str, language: str) -> None:
    register(
        Task(
            name=name,
            source=source,
            format=_to(code, language),
            metrics=(bleu,),
            reader=Text(),
        ),
        aliases=[f"{name}_v003"],
    )


_translation("wmt_t2t_ende", "wmt_t2t_translate/de-en:1.0.0", "de", "German")
_translation("wmt15_enfr", "wmt15_translate/fr-en:1.0.0", "fr", "French")
_translation("wmt16_enro", "wmt16_translate/ro-en:1.0.0", "ro", "Romanian")
