import pytest

from tasks.errors import InputError
from tasks.qa.suite.catalogue import CATALOGUE, severities


def test_severities_are_the_catalogues_unless_changed():
    found = severities({"order": "warning", "leakage-passages": "error"})
    assert set(found) == set(CATALOGUE)
    assert (found["order"], found["leakage-passages"], found["answers"]) == ("warning", "error", "error")


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"validate\.severity\.leak-near: no such .* nearest is leakage-near"):
        severities({"leak-near": "warning"})


def test_the_schema_can_be_no_warning():
    assert severities({"schema": "error"})["schema"] == "error"
    with pytest.raises(InputError, match=r"validate\.severity\.schema: is always error"):
        severities({"schema": "warning"})
