"""Vocabularies: T5's own ids, text there and back, files that are none."""

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

import hypertf
from tests.conftest import shared_path
from tfds_tasks import get_vocabulary


@pytest.fixture(scope="module")
def t5():
    return get_vocabulary(str(shared_path("data/vocab/spiece.model")))


def test_known_ids(t5):
    ids = t5.encode(["translate English to German: That is good."])
    assert ids.to_list() == [[13959, 1566, 12, 2968, 10, 466, 19, 207, 5]]
    assert (t5.num_pieces, t5.size) == (32000, 32100)


def test_ids_equal_sentencepieces_own(t5):
    texts = ["café “noir”", "  two  spaces ", "", "x\ny\t1.5%", "日本語 <unk> </s>"]
    expected = [t5.pieces.encode(text) for text in texts]
    assert t5.encode(texts).to_list() == expected


def test_a_new_random_seed_leaves_the_tokenizer_alone(t5):
    text = ["translate English to German: That is good."]
    before = t5.encode(text).to_list()
    keras.utils.set_random_seed(1)
    assert t5.encode(text).to_list() == before


def test_decoding_stops_at_the_end_and_drops_padding(t5):
    ids = np.array([[466, 19, 1, 207, 5], [466, 0, 0, 0, 0], [1, 466, 0, 0, 0]])
    assert t5.texts(ids) == ["That is", "That", ""]


def test_decoding_in_a_graph_is_the_same(t5):
    ids = tf.constant([[466, 19, 207, 5, 1], [207, 1, 0, 0, 0]])
    graph = tf.function(t5.decode)(ids).numpy().tolist()
    assert graph == [b"That is good.", b"good"] == t5.decode(ids).numpy().tolist()


def test_sentinels_count_down_from_the_last_id(t5):
    ids = np.array([[32099, 466, 32098, 207, 1]])
    assert t5.texts(ids) == ["<extra_id_0> That <extra_id_1> good"]


def test_size_is_checked_against_the_model(t5):
    t5.check_fits(hypertf.T5Config.from_name("t5-small").vocab_size)
    for wrong in (32000, 1024, 64000):
        with pytest.raises(ValueError, match=f"32100 ids.*{wrong} rows"):
            t5.check_fits(wrong)
    nano = get_vocabulary("nano")
    nano.check_fits(hypertf.T5Config.from_name("t5-nano").vocab_size)


def test_nano_ships_with_the_package():
    nano = get_vocabulary("nano")
    text = "sentence: the dog runs ."
    assert nano.texts(nano.encode([text]).to_tensor().numpy()) == [text]


def test_a_preset_folder(t5, tmp_path):
    assets = tmp_path / "assets/tokenizer"
    assets.mkdir(parents=True)
    model = shared_path("data/vocab/spiece.model").read_bytes()
    (assets / "vocabulary.spm").write_bytes(model)
    assert get_vocabulary(str(tmp_path)).size == 32100
    with pytest.raises(FileNotFoundError, match=r"vocabulary\.spm"):
        get_vocabulary(str(assets.parent))


def test_a_path_that_is_not_there():
    with pytest.raises(FileNotFoundError, match=r"spiece.modle.*expected 'nano'"):
        get_vocabulary("/nowhere/spiece.modle")


def test_a_file_of_another_kind(tmp_path):
    path = tmp_path / "spiece.model"
    path.write_text("words")
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        get_vocabulary(str(path))


def test_special_ids_that_are_not_t5s(tmp_path):
    (tmp_path / "text").write_text("the dog runs\nthe cat sleeps\n" * 20)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "other"),
        vocab_size=30,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    with pytest.raises(ValueError, match=r"expected \[0, 1, 2\]"):
        get_vocabulary(str(tmp_path / "other.model"))
