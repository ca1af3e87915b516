"""The embedded tasks: built by TFDS, balanced, held out, in conflict, no word count."""

from collections import Counter

import numpy as np
import pytest
import sentencepiece
import tensorflow_datasets as tfds

import hypertf
from tfds_tasks import get_task, nano, sources
from tfds_tasks.nano import bag_of_words, families, make_vocabulary
from tfds_tasks.nano.grammar import Draw, Family, Text

SPLITS = ("train", "validation", "test")
CONFLICTS = (
    ("acceptability", "sentiment"),
    ("acceptability", "coreference"),
    ("paraphrase", "similarity"),
    ("paraphrase", "inference"),
    ("similarity", "inference"),
    ("question_sentence", "yes_no"),
)


def read(task, folder):
    """{split: [row]} as TFDS reads back what the builder has written."""
    builder = sources.open_builder(get_task(f"nano/{task}").source, str(folder))
    return {
        split: rows(tfds.as_numpy(builder.as_dataset(split, batch_size=-1)))
        for split in SPLITS
    }


def rows(columns):
    """{feature: [value]}, nested or not, as [{feature: value}]."""
    columns = [
        [
            (key, value)
            for value in (rows(column) if isinstance(column, dict) else column)
        ]
        for key, column in columns.items()
    ]
    return [dict(row) for row in zip(*columns, strict=True)]


@pytest.fixture(scope="module")
def data(data_dir):
    return {task: read(task, data_dir) for task in nano.TASKS}


@pytest.fixture(scope="module")
def pieces():
    return sentencepiece.SentencePieceProcessor(model_file=nano.VOCABULARY)


def as_text(task, row):
    row = {k: v.decode() if isinstance(v, bytes) else v for k, v in row.items()}
    return nano.to_text(task, row)


def answers(task, rows):
    """{input: answer}"""
    return dict(as_text(task, row) for row in rows)


def test_the_builder_has_a_config_for_each_task():
    assert list(nano.Nano.builder_configs) == list(nano.TASKS)
    assert len(nano.TASKS) == 11


def test_sizes_are_apart_by_a_factor_of_100(data):
    sizes = {task: len(splits["train"]) for task, splits in data.items()}
    assert max(sizes.values()) >= 100 * min(sizes.values())
    assert min(sizes.values()) >= 200
    for task in data:
        for split in ("validation", "test"):
            assert 200 <= len(data[task][split]) <= 500, task


@pytest.mark.parametrize("task", nano.TASKS)
def test_labels_are_balanced(task, data):
    for split, rows in data[task].items():
        counts = Counter(round(float(row["label"]), 1) for row in rows)
        assert len(counts) >= 2
        assert len(set(counts.values())) == 1, (split, counts)


@pytest.mark.parametrize("task", nano.TASKS)
def test_no_text_is_in_two_splits_or_twice(task, data):
    texts = [as_text(task, row)[0] for split in SPLITS for row in data[task][split]]
    assert len(texts) == len(set(texts))


def test_what_is_held_out_of_a_task_is_held_out_of_its_family(data):
    for one, other in CONFLICTS:
        held_out = answers(one, data[one]["validation"])
        assert not held_out.keys() & answers(other, data[other]["train"]).keys()


def test_passages_of_several_answers_stay_in_one_split(data):
    passages = [{row["paragraph"] for row in data["multi_answer"][s]} for s in SPLITS]
    assert sum(map(len, passages)) == len(set.union(*passages))


def test_answers_to_one_question_are_numbered_as_such(data):
    questions = {}
    for row in data["multi_answer"]["validation"]:
        text = (row["paragraph"], row["question"])
        questions.setdefault(int(row["idx"]["question"]), []).append((text, row))
    for rows in questions.values():
        assert len({text for text, _ in rows}) == 1
        assert {int(row["label"]) for _, row in rows} == {0, 1}
        assert sum(int(row["label"]) for _, row in rows) >= 2  # several are right


def test_spans_are_words_of_the_text(data):
    for row in data["coreference"]["validation"]:
        words = row["text"].decode().split()
        for span in ("span1", "span2"):
            assert words[row[f"{span}_index"]] == row[f"{span}_text"].decode()
        assert row["label"] == (row["span1_text"] == row["referent"])


def test_a_second_build_is_the_same(tmp_path, data):
    for family in families.FAMILIES:
        for task, splits in family.rows().items():  # not from the cache
            for split, texts in splits.items():
                again = [(*text.fields, text.answers[task]) for text in texts]
                keys = (*nano.TASKS[task].keys, "label")
                first = families.rows(task, split)
                assert again == [tuple(row[key] for key in keys) for row in first]
    np.testing.assert_equal(read("paraphrase", tmp_path), data["paraphrase"])


def test_draws_are_the_same_on_every_machine():
    draw = Draw(0)
    assert [draw.below(100) for _ in range(6)] == [84, 75, 42, 25, 51, 40]
    assert Draw(1).several("abcd", 4) == ["a", "d", "c", "b"]


def test_a_grammar_that_has_too_few_texts_is_named():
    def coin(draw):
        return [Text((draw.one(("heads", "tails")),), {"toss": draw.below(2)})]

    family = Family(coin, 0, {"toss": {"train": 4}}, {"toss": (0, 1)})
    with pytest.raises(ValueError, match=r"coin has too few texts: .*'toss', 'train'"):
        family.rows()


@pytest.mark.parametrize("one, other", CONFLICTS)
def test_the_same_text_asks_for_different_answers(one, other, data):
    first, second = (
        {k: v for s in SPLITS for k, v in answers(task, data[task][s]).items()}
        for task in (one, other)
    )
    shared = first.keys() & second.keys()
    differ = np.mean([first[text] != second[text] for text in shared])
    share = len(shared) / min(len(first), len(second))
    print(f"{one} and {other}: {share:.0%} of texts shared, {differ:.0%} differ")
    assert share > 0.5
    assert differ > 0.35


def test_whoever_ignores_the_task_cannot_do_well():
    """Who knows the answers of all tasks gives the one that most of them want."""
    scores = {}
    for family in families.FAMILIES:
        for task, splits in families.texts(family).items():
            right = []
            for text in splits["validation"]:
                wanted = {t: answer(t, text) for t in family.sizes}
                given = Counter(wanted.values()).most_common()
                best = [word for word, count in given if count == given[0][1]]
                right.append((wanted[task] in best) / len(best))
            scores[task] = 100 * np.mean(right)
    print({task: round(score) for task, score in scores.items()})
    assert np.mean(list(scores.values())) < 75
    assert sum(score < 90 for score in scores.values()) >= 8


def answer(task, text):
    return nano.to_text(task, families.as_row(task, text))[1]


def test_no_key_tells_the_task_within_a_family():
    for family in families.FAMILIES:
        assert len({tuple(nano.text_keys(task)) for task in family.sizes}) == 1


def test_a_bag_of_words_does_not_solve_them():
    scores = {task: bag_of_words.score(task) for task in nano.TASKS}
    for task, (score, chance) in scores.items():
        print(f"{task:20}{score:7.1f}{chance:7.1f}")
    near_chance = [task for task, (score, chance) in scores.items() if score < 65]
    assert len(near_chance) >= len(scores) / 2
    assert all(score < chance + 15 for score, chance in scores.values())


def test_a_bag_of_words_is_not_a_straw_man(monkeypatch):
    """Where words do tell the label, it finds out."""

    def made_up_rows(task, split):
        words = [("good", 1), ("bad", 0)] * 20
        return [{"sentence": f"a {word} day", "label": label} for word, label in words]

    monkeypatch.setattr(families, "rows", made_up_rows)
    assert bag_of_words.score("sentiment") == (100, 50)


def test_the_vocabulary_knows_all_words(data, pieces):
    texts = {
        t for task in data for row in data[task]["test"] for t in as_text(task, row)
    }
    words = sorted({word for text in texts for word in text.split() if word.isalpha()})
    assert len(words) > 100
    assert not any(2 in pieces.encode(text) for text in texts)
    whole = [word for word in words if len(pieces.encode(word)) == 1]
    assert len(whole) > 0.9 * len(words), set(words) - set(whole)
    assert max(len(pieces.encode(text)) for text in texts) < 32
    assert all(pieces.decode(pieces.encode(text)) == text for text in texts)


def test_the_vocabulary_is_of_t5s_kind_and_fits_the_model(pieces):
    assert [pieces.pad_id(), pieces.eos_id(), pieces.unk_id()] == [0, 1, 2]
    assert pieces.bos_id() == -1
    size = hypertf.T5Config.from_name("t5-nano").vocab_size
    assert pieces.vocab_size() + 100 <= size  # with T5's sentinels
    strange = "Ünlike nano: 2024 (QUIZ)!"
    assert pieces.decode(pieces.encode(strange)) == strange
    assert pieces.encode("42", out_type=str)[-2:] == ["4", "2"]


def test_the_vocabulary_can_be_made_again(pieces):
    again = sentencepiece.SentencePieceProcessor(model_proto=make_vocabulary.train())
    listed = [
        [(p.id_to_piece(i), round(p.get_score(i), 4)) for i in range(p.vocab_size())]
        for p in (again, pieces)
    ]
    assert listed[0] == listed[1]
