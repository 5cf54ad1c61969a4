from tasks.training.alarms import Alarms


def alarmed(alarms: Alarms, **named: float) -> list[str]:
    return alarms.of({f"episode/{name}": value for name, value in named.items()})


def test_copied_examples_are_told_when_they_pass_the_bound_and_when_they_double() -> None:
    alarms = Alarms("Beijing")
    said = [bool(alarmed(alarms, answers=100, copied_example=copied)) for copied in (0, 5, 6, 7, 12, 13, 20, 27)]
    assert said == [False, False, True, False, False, True, False, True]
    (line,) = alarmed(Alarms("Beijing"), answers=128, copied_example=32)
    assert "32 of 128 answers (25%)" in line and "'Beijing'" in line and "episode.example_answer" in line
    assert alarmed(alarms, answers=0, copied_example=0) == []


def test_flat_groups_are_told_once_until_they_have_been_mended() -> None:
    alarms = Alarms(None)
    said = [bool(alarmed(alarms, groups_without_signal=share)) for share in (0.9, 0.95, 1.0, 0.5, 0.91)]
    assert said == [False, True, False, False, True]


def test_a_validation_without_training_raises_no_alarm() -> None:
    assert Alarms(None).of({"val-episode/groups_without_signal": 1.0, "val/x": 1.0}) == []
