import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import demos
from tasks.agent.environments.search.environment import Environment
from tasks.agent.protocols import SearchR1
from tasks.agent.toolbox import Tool
from tasks.agent.toolbox.base import _tools
from tasks.errors import InputError, UnavailableError
from tasks.retrieval.index import manifest
from tasks.training.tokenizer import train_tokenizer

PEOPLE = 20
PASSAGES = [(f"p{n}", f"Person{n}", f"Person{n} was born in Town{n}.", None) for n in range(PEOPLE)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, build_index) -> Path:
    """An index and a tokenizer, built once."""
    folder = tmp_path_factory.mktemp("shared")
    build_index(folder / "index", PASSAGES)
    texts = [f"{title} {text}" for _, title, text, _ in PASSAGES]
    train_tokenizer(texts, 400, SearchR1().tokens).save_pretrained(folder / "policy" / "model")
    return folder


def row_of(question_row, n: int, **more) -> dict:
    return question_row(f"Where was Person{n} born?", [f"Town{n}"], [f"Person{n}"], [f"p{n}"], id=f"q{n}", **more)


@pytest.fixture
def stage(make_stage, question_row, shared: Path):
    def make(questions: int, validation: int, rows: list[dict] | None = None, *, held: tuple[int, ...] = (), **more):
        top = {key: more.pop(key) for key in ("seed", "retrieval") if key in more}
        wanted = {"questions": questions, "validation": validation, **more}
        made = make_stage("demos", demos=wanted, sft={"batch_size": 1}, **top)
        rows = [row_of(question_row, n) for n in range(PEOPLE)] if rows is None else rows
        Path("data/ingest").mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), "data/ingest/train.parquet", row_group_size=8)
        test, validation_rows = ([row_of(question_row, n) for n in part] for part in (held, (PEOPLE + 1,)))
        for name, part in (("test", test or validation_rows), ("validation", validation_rows)):
            pq.write_table(pa.Table.from_pylist(part), f"data/ingest/{name}.parquet")
        shutil.copy(shared / "index-corpus.parquet", "data/ingest/corpus.parquet")
        for name in ("index", "policy"):
            if not Path("data", name).exists():
                Path("data", name).symlink_to(shared / name)
        return made

    return make


def read(stage, name: str) -> list[dict]:
    return pq.read_table(stage.out / f"{name}.parquet").to_pylist()


def test_an_index_of_another_corpus_is_refused(stage, write_corpus) -> None:
    made = stage(6, 2)
    write_corpus(Path("data/ingest/corpus.parquet"), PASSAGES[1:])
    with pytest.raises(InputError, match=r"data/index: the index is of corpus \w{12}, and corpus \w{12} is meant"):
        demos.run(made)


class Stumbling(BaseHTTPRequestHandler):
    """A retrieval server that is ready, answers the search at opening, and is overloaded from then on."""

    def do_GET(self) -> None:
        self.say(200, {"corpus_sha256": manifest.read(Path("data/index"))["corpus_sha256"], "retriever": "bm25"})

    def do_POST(self) -> None:
        opening = b'["a"]' in self.rfile.read(int(self.headers["content-length"]))
        self.say(200, {"result": [[]]}) if opening else self.say(503, {"detail": "full"})

    def say(self, status: int, content: dict) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *args) -> None:
        pass


def test_rl_has_the_chosen_questions_alone_and_nothing_else_changes(stage) -> None:
    made = stage(6, 2)
    demos.run(made)
    whole, left = read(made, "train"), read(made, "left")
    wanted = [row["extra_info"]["id"] for row in left[::3]]
    Path("data/sources").mkdir(parents=True, exist_ok=True)
    Path("data/sources/few.jsonl").write_text("".join(json.dumps({"id": one}) + "\n" for one in wanted[::-1]))
    for path in made.out.iterdir():
        path.unlink()
    again = stage(6, 2, rl_questions="few.jsonl")
    assert demos.run(again)["rl_rows"] == len(wanted)
    assert [row["extra_info"]["id"] for row in read(again, "rl_train")] == wanted
    assert read(again, "train") == whole and read(again, "left") == left


def test_a_server_that_stumbles_ends_the_stage_and_chooses_no_questions(stage) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Stumbling) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        made = stage(6, 2, retrieval={"server": f"http://127.0.0.1:{server.server_port}", "seconds": 0.3})
        with pytest.raises(UnavailableError, match=r"tool search cannot be had now: a call has failed \(unavailable\)"):
            demos.run(made)
        server.shutdown()
    assert not list(made.out.iterdir())


def test_questions_are_split_between_demonstrations_and_rl(stage) -> None:
    made = stage(6, 2)
    figures = demos.run(made)
    train, validation, left = (read(made, name) for name in ("train", "validation", "rl_train"))
    assert (
        (figures["n"], figures["validation"], figures["rl_rows"])
        == (6, 2, 12)
        == tuple(map(len, (train, validation, left)))
    )
    used, kept = {row["id"] for row in train + validation}, [row["extra_info"]["id"] for row in left]
    assert len(used) == 8 and not used.intersection(kept)
    rows = pq.read_table("data/ingest/train.parquet")
    assert kept == [key for key in (f"q{n}" for n in range(PEOPLE)) if key not in used]
    assert pq.read_schema(made.out / "rl_train.parquet").equals(rows.schema)
    assert figures["by_source"] == {"made": 8} and figures["mean_searches"] == 1.0
    assert figures["by_policy"] == {"titles": 8} and figures["by_hops"] == {"1": {"made": 8, "left": 12}}
    assert figures["answer_in_context"] == 1.0 and figures["dropped"] == {} and figures["yes_no"] == 0
    assert json.dumps(figures, allow_nan=False)


def test_a_row_has_the_form_of_the_contract(stage) -> None:
    made = stage(1, 1)
    demos.run(made)
    row = read(made, "train")[0]
    assert set(row) == {
        "id", "data_source", "prompt", "messages", "chosen", "question", "golden_answers", "found_answer_context",
        "gave_up", "segments", "hops", "query_policy",
    }  # fmt: skip
    assert row["messages"] == [*row["prompt"], {"role": "assistant", "content": row["chosen"]}]
    assert row["chosen"] == "".join(segment["text"] for segment in row["segments"])
    assert row["chosen"].endswith(f"<answer> {row['golden_answers'][0]} </answer>")


@pytest.mark.parametrize(("share", "least", "most"), [(0.0, 0, 0), (0.5, 1, 9), (1.0, 10, 10)])
def test_the_share_that_gives_up_is_drawn_by_question(stage, question_row, share, least, most) -> None:
    pairs = [(n, (n + 1) % PEOPLE) for n in range(PEOPLE)]
    rows = [
        question_row(f"Same town {n}?", ["no"], [f"Person{n}", f"Person{m}"], [f"p{n}", f"p{m}"], id=f"q{n}")
        for n, m in pairs
    ]
    made = stage(7, 3, [*rows, *rows[:1]], give_up=share)
    figures = demos.run(made)
    assert least <= figures["gave_up"] <= most and figures["yes_no"] == 10 - figures["gave_up"]
    written = read(made, "train") + read(made, "validation")
    assert sum(row["gave_up"] for row in written) == figures["gave_up"]
    assert figures["mean_searches"] == (20 - figures["gave_up"]) / 10
    assert {row["chosen"].count("<search>") for row in written if row["gave_up"]} <= {1}


def test_half_the_questions_stay_for_rl(stage, capsys: pytest.CaptureFixture[str]) -> None:
    figures = demos.run(stage(100, 10))
    assert (figures["n"], figures["validation"], figures["rl_rows"]) == (5, 5, 10)
    said = capsys.readouterr().out
    assert "10 demonstrations instead of 110: 0.5 of the 20 training questions stay for RL" in said
    assert (
        "5 to train on, 5 held back, 10 rows for RL; by policy: 10 titles; by hops: 10 of 1 (10 left); "
        "dropped: none" in said
    )


def test_a_share_of_every_number_of_hops_stays_for_rl(stage, question_row) -> None:
    # 12 one-hop and 8 two-hop questions: 0.7 of each stay, ceil(8.4) and ceil(5.6).
    rows = [
        question_row(
            f"Question {n}?", [f"Town{n}"], [f"Person{n}", f"Person{n - 1}"][: 1 + (n % 5 < 2)], [f"p{n}"], id=f"q{n}"
        )
        for n in range(PEOPLE)
    ]
    figures = demos.run(stage(100, 1, rows, rl_share=0.7, hop_weights={2: 5.0}))
    assert figures["by_hops"] == {"1": {"made": 3, "left": 9}, "2": {"made": 2, "left": 6}}


def test_long_chains_come_first_where_they_weigh_more(stage, question_row) -> None:
    rows = [row_of(question_row, n) for n in range(PEOPLE)]
    for row in rows[:8]:
        row["extra_info"]["hops"] = 3
    figures = demos.run(stage(3, 1, rows, hop_weights={3: 1e9}))
    assert figures["by_hops"] == {"1": {"made": 0, "left": 12}, "3": {"made": 4, "left": 4}}


def test_no_row_left_for_rl_is_wrong_input(stage) -> None:
    with pytest.raises(InputError, match=r"no training row is left for RL; raise demos\.rl_share"):
        demos.run(stage(100, 1, rl_share=0.0))


def test_the_policy_that_led_to_a_demonstration_is_told(stage, question_row) -> None:
    rows = [
        question_row(f"Where was Person{n} born?", [f"Town{n}"], [f"Person{n}"] if n % 2 else [], [f"p{n}"], id=f"q{n}")
        for n in range(PEOPLE)
    ]
    for row in rows:
        row["extra_info"]["hops"] = 1
    made = stage(9, 1, rows, queries=["titles", "keywords"])
    figures = demos.run(made)
    written = read(made, "train") + read(made, "validation")
    told = {row["id"]: row["query_policy"] for row in written}
    assert told == {key: "titles" if int(key[1:]) % 2 else "keywords" for key in told}
    assert sum(figures["by_policy"].values()) == 10 and set(figures["by_policy"]) == {"titles", "keywords"}
    searched = {row["chosen"].split(" </search>")[0] for row in written if row["query_policy"] == "keywords"}
    assert searched == {f"<search> Person{key[1:]} born" for key, policy in told.items() if policy == "keywords"}


@pytest.fixture
def own_file(stage, question_row):
    """A file of demonstrations as the stage itself makes them, with a piece of their text replaced."""

    def write(*numbers: int, old: str = "", new: str = "") -> str:
        # The last question has no demonstration, so all others may have one and RL keeps a row.
        rows = [row_of(question_row, n) for n in range(PEOPLE)]
        made = stage(PEOPLE, 1, [*rows, question_row("Who?", ["x"], ["Nobody"], ["p0"])], rl_share=0.0)
        demos.run(made)
        by_id = {row["id"]: row for row in read(made, "train") + read(made, "validation")}
        keys = ("question", "golden_answers", "messages", "chosen")
        lines = [json.dumps({key: by_id[f"q{n}"][key] for key in keys}).replace(old, new) for n in numbers]
        Path("data/sources").mkdir()
        Path("data/sources/own.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return "own.jsonl"

    return write


def test_own_demonstrations_come_first_and_their_questions_never_in_rl(stage, own_file) -> None:
    files = [own_file(4, 11, 15)]
    made = stage(4, 1, files=files)
    figures = demos.run(made)
    written = read(made, "train") + read(made, "validation")
    own = {row["question"] for row in written if row["query_policy"] == "own"}
    assert own == {f"Where was Person{n} born?" for n in (4, 11, 15)}
    assert figures["by_policy"] == {"own": 3, "titles": 2} and figures["own"] == {"rows": 3, "taken": 3, "faulty": {}}
    left = {row["extra_info"]["question"] for row in read(made, "rl_train")}
    assert len(left) == 15 == figures["rl_rows"] and not left & {row["question"] for row in written}
    of_own = next(row for row in written if row["question"] == "Where was Person4 born?")
    assert [segment["loss"] for segment in of_own["segments"]] == [True, False, False, False, True]
    assert of_own["prompt"][0]["content"].endswith("Question: Where was Person4 born?")


def test_an_own_demonstration_of_a_held_out_question_is_refused(stage, own_file, question_row) -> None:
    files = [own_file(4, 11)]
    with pytest.raises(InputError, match=r"^data/sources/own\.jsonl, line 2: question: .*Person11.* 1 held_out\)"):
        demos.run(stage(4, 1, held=(11,), files=files))
    rows = [row_of(question_row, n) for n in range(PEOPLE) if n != 11]
    figures = demos.run(stage(4, 1, rows, held=(11,), files=files, max_faulty=0.5))
    assert figures["own"] == {"rows": 2, "taken": 1, "faulty": {"held_out": 1}}
    assert figures["held_out"] == {"same": 0, "normalised": 0, "near": 0}


@pytest.mark.parametrize(
    ("question", "form"),
    [
        ("Where was Person3 born?", "same"),
        ("where was PERSON3 born", "normalised"),
        ("Where were Person3 born?", "near"),
    ],
)
def test_a_made_demonstration_of_a_held_out_question_is_refused(stage, question_row, question: str, form: str) -> None:
    rows = [row_of(question_row, n) for n in range(PEOPLE)]
    rows[3] = question_row(question, ["Town3"], ["Person3"], ["p3"], id="q3")
    made = stage(PEOPLE - 1, 1, rows, held=(7, 3), rl_share=0.05)
    rows[7] = question_row("Who is it?", ["x"], ["Nobody"], ["p0"], id="q7")
    pq.write_table(pa.Table.from_pylist(rows), "data/ingest/train.parquet")
    logged: list[dict] = []
    made.track.log_figures = logged.append
    with pytest.raises(InputError) as refused:
        demos.run(made)
    assert str(refused.value) == (
        f"data/ingest/train.parquet, row 3: 1 of 19 demonstrations show a held-out question (1 {form}); first: "
        f"{question!r} is {form} to data/ingest/test.parquet, row 1; take such rows out of the training questions; "
        "ingest does with ingest.drop_near_duplicates: true"
    )
    assert logged == [{"held_out": {"same": 0, "normalised": 0, "near": 0} | {form: 1}}]


def test_own_demonstrations_of_another_index_are_refused(stage, own_file) -> None:
    files = [own_file(4, old="was born in", new="was seen in")]
    with pytest.raises(InputError, match=r"line 1: chosen: not what the index returns for 'Person4': .*make it again"):
        demos.run(stage(4, 1, files=files))


def test_own_demonstrations_leave_rl_its_share(stage, own_file) -> None:
    files = [own_file(4, 11)]
    with pytest.raises(
        InputError, match=r"^data/sources/own\.jsonl, line 2: .*rl_share 0\.95 lets 1 of the 20 training"
    ):
        demos.run(stage(4, 1, files=files, rl_share=0.95))


def test_without_a_tool_that_searches_there_are_none(stage, make_stage, monkeypatch) -> None:
    stage(2, 1)
    calculator = type("Calculator", (Tool,), {"name": "calculator", "description": "works out a sum"})
    monkeypatch.setitem(_tools, "calculator", calculator)
    made = make_stage("demos", tools={"names": ["calculator"]})
    with pytest.raises(InputError, match=r"^tools\.names: demonstrations search, and there is no tool search"):
        demos.run(made)


def test_the_seed_decides_which_questions(stage) -> None:
    drawn = []
    for seed in (1, 1, 2):
        made = stage(4, 1, seed=seed)
        demos.run(made)
        drawn.append([row["id"] for row in read(made, "train")])
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_repeated_question_never_comes_back_in_rl(stage, question_row) -> None:
    rows = [
        question_row(
            f"Where was Person{n // 2} born?", [f"Town{n // 2}"], [f"Person{n // 2}"], [f"p{n // 2}"], id=f"q{n}"
        )
        for n in range(12)
    ]
    made = stage(2, 1, rows)
    demos.run(made)
    shown = {row["question"] for name in ("train", "validation") for row in read(made, name)}
    left = [row["extra_info"]["question"] for row in read(made, "rl_train")]
    assert len(shown) == 3 and not shown.intersection(left) and len(left) == 6


def test_no_demonstrations_is_wrong_input(stage, question_row) -> None:
    rows = [question_row(f"q{n}", ["x"], ["Nobody"], [f"p{n}"]) for n in range(8)]
    with pytest.raises(InputError, match=r"0 demonstrations from 8 training questions.*8 gold_passage_not_found"):
        demos.run(stage(2, 1, rows))


def test_an_environment_that_searches_nothing_keeps_all_rows(stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "needs_retrieval", False)
    made = stage(2, 1)
    figures = demos.run(made)
    assert figures["n"] == 0 and figures["rl_rows"] == PEOPLE
    assert pq.read_table(made.out / "rl_train.parquet").equals(pq.read_table("data/ingest/train.parquet"))
    with pytest.raises(InputError, match=r"demos\.files: environment 'search' searches nothing.*leave it empty"):
        demos.run(stage(2, 1, files=["own.jsonl"]))
