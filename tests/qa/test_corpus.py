from tasks.qa.corpus import Corpus
from tasks.qa.records import Passage

ONLY = Passage("1", "Karo", "A newer text.")
FIRST = Passage("2", "Velin", "Velin is a city.")
SECOND = Passage("3", "Velin", "It lies in\n Dorna.  Karo was born there.")
CORPUS = Corpus([ONLY, FIRST, SECOND])


def test_the_only_passage_of_a_title_supports_whatever_it_says():
    assert CORPUS.supporting("Karo", ["Karo is a poet."]) is ONLY
    assert CORPUS.supporting("Mila", ["Mila is a poet."]) is None


def test_of_several_passages_the_one_that_holds_a_sentence_supports():
    assert CORPUS.supporting("Velin", ["nothing of it", " It lies in Dorna. "]) is SECOND
    assert CORPUS.supporting("Velin", ["Velin"]) is FIRST
    assert CORPUS.supporting("Velin", []) is None


def test_a_paragraph_is_found_word_for_word_only():
    assert CORPUS.paragraph("Velin", "It lies in Dorna.\nKaro was born there.") is SECOND
    assert CORPUS.paragraph("Karo", "Karo is a poet.") is None
