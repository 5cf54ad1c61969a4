import pytest

from tasks.agent import environments
from tasks.errors import InputError
from tasks.params import Environment

SEARCH = {"name": "search", "em_score": 1.0, "format_score": 0.1}


def section(**values) -> Environment:
    return Environment.model_validate({**SEARCH, **values})


def test_created_by_name_with_its_parameters() -> None:
    environment = environments.create(section(format_score=0.2))
    assert (environment.name, environment.needs_retrieval, environment.params.format_score) == ("search", True, 0.2)
    assert "search" in environments.names()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": "serch"}, ["no environment 'serch'", "did you mean 'search'"]),
        ({"name": "zzz"}, ["no environment 'zzz'", "search"]),
        ({"em_scor": 1.0}, ["environment.em_scor", "did you mean 'em_score'"]),
        ({"zzz": 1.0}, ["environment.zzz", "em_score, format_score"]),
        ({"em_score": "much"}, ["environment.em_score", "number"]),
        ({"em_score": 0.0}, ["environment.em_score", "greater than 0"]),
        ({"format_score": -0.1}, ["environment.format_score", "greater than or equal to 0"]),
    ],
)
def test_wrong_section_is_refused(values, words) -> None:
    with pytest.raises(InputError) as caught:
        environments.environment_params(section(**values), where="params/mine.yaml")
    assert str(caught.value).startswith("params/mine.yaml: ")
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_prompt_takes_any_question_as_it_is() -> None:
    environment = environments.create(section())
    messages = environment.prompt(" What is {x}? ", "Answer.\n{question}")
    assert messages == [{"role": "user", "content": "Answer.\nWhat is {x}?"}]
