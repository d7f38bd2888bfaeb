"""Questions on the command line, answered without training."""

import re

import pytest

from dpsgd.accounting import PLD, poisson_gaussian
from dpsgd.calibrate import main
from dpsgd.errors import ConfigError
from dpsgd.experiment.question import question_of

MNIST = ["n=60000", "batch=256", "epochs=60", "delta=1e-5"]
RELATION = "add_or_remove_one"


def _rows(text):
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}


def test_sigma_for_an_epsilon_is_the_published_one(capsys):
    main(["epsilon=3", *MNIST])
    rows = _rows(capsys.readouterr().out)
    assert float(rows["pld"][0]) == pytest.approx(0.96844, rel=1e-3)
    assert float(rows["rdp"][0]) == pytest.approx(1.01403, rel=1e-3)
    assert float(rows["moments"][0]) > float(rows["rdp"][0])
    assert 1 <= float(rows["prv"][0]) / float(rows["pld"][0]) < 1.01


def test_epsilon_of_a_sigma_is_printed_by_all_and_says_what_certifies(capsys):
    main(["noise_multiplier=1.1", *MNIST])
    text = capsys.readouterr().out
    rows = _rows(text)
    assert rows["pld"] == ["2.39", "certifies"]
    assert 2.38 < float(rows["prv"][0]) < 2.43
    assert rows["moments"][0] == "3.01"
    assert {"gdp", "small_q", "textbook"} <= {n for n, r in rows.items() if "no" in r}
    assert max(map(len, text.splitlines())) <= 80


def test_what_a_budget_allows_fits_and_one_more_does_not(capsys, monkeypatch):
    monkeypatch.setattr("dpsgd.calibrate.ACCOUNTANTS", (PLD("pld", 1e-3),))
    main(["epsilon=2", "noise_multiplier=1", "n=1000", "batch=50", "steps=10", "delta=1e-4"])
    steps, batch = _rows(capsys.readouterr().out)["pld"]
    pld = PLD("pld", 1e-3)

    def spent(q, count):
        return pld.epsilon(poisson_gaussian(q, 1.0, count), RELATION, 1e-4)

    assert spent(0.05, int(steps)) <= 2 < spent(0.05, int(steps) + 1)
    assert spent(float(batch) / 1000 * 0.999, 10) <= 2 < spent(float(batch) / 1000 * 1.003, 10)


def test_replace_one_is_answered_by_pld_alone(capsys):
    main(["noise_multiplier=2", "n=1000", "q=0.05", "steps=5", "relation=replace_one"])
    rows = _rows(capsys.readouterr().out)
    assert re.fullmatch(r"[\d.]+", rows["pld"][0])
    assert rows["rdp"][0] == rows["prv"][0] == rows["moments"][0] == "–"
    assert "gdp" not in rows


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["epsilon=3", "bach=2"], "bach"),
        (["epsilon=three", *MNIST], "epsilon"),
        (["epsilon=-1", *MNIST], "epsilon"),
        (["epsilon=3", "epsilon=4", *MNIST], "epsilon"),
        (MNIST, "epsilon"),
        (["epsilon=3", "n=10.5", "batch=2", "steps=3"], "n"),
        (["epsilon=3", "n=100", "batch=200", "steps=3"], "batch"),
        (["epsilon=3", "n=100", "q=2", "steps=3"], "q"),
        (["epsilon=3", "n=100", "steps=3"], "q"),
        (["epsilon=3", "n=100", "batch=2", "steps=3", "epochs=2"], "steps"),
        (["epsilon=3", "n=100", "batch=2", "steps=2.5"], "steps"),
    ],
)
def test_a_question_that_makes_no_sense_names_its_word(words, key):
    with pytest.raises(ConfigError) as error:
        question_of(words)
    assert error.value.key == key


@pytest.mark.parametrize("words", [["epsilon=3", *MNIST[:3], "delta=2"], ["bach=2"]])
def test_the_command_line_exits_with_two_and_one_line(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert words[-1].split("=")[0] in capsys.readouterr().err


def test_help_shows_the_three_questions(capsys):
    main([])
    assert capsys.readouterr().out.count("python -m dpsgd.calibrate") == 3
