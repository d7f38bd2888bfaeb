"""The ledger's point on memorisation: from the run's own audit, or from audited siblings."""

from __future__ import annotations

import pytest

from analysis import schema
from dpsgd import train
from dpsgd.experiment.files import read_json
from dpsgd.experiment.ledger.memorised import memorisation
from dpsgd.experiment.ledger_view import shown_page, write_shown_page
from dpsgd.experiment.verify import verify

TINY = {
    "data": "digits", "model": "logistic", "steps": 4, "batch": 100, "tracker": "none",
    "telemetry": "off",
}  # fmt: skip


def words(page):
    return " ".join(page.split())


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A plain run, then an audited sibling of it and one of another threshold."""
    base = TINY | {"runs_dir": str(tmp_path_factory.mktemp("audited"))}
    plain = train(base)
    audited = train(base | {"audit": "canaries", "audit.share": 0.1, "audit.references": 50})
    train(base | {"audit": "membership", "clip.norm": 3.0})
    return plain, audited


def test_an_audited_run_says_what_its_audit_found_with_n_and_interval(runs):
    _, audited = runs
    text = words((audited.folder / schema.LEDGER_PAGE).read_text(encoding="utf-8"))
    assert "Memorisation: audit=canaries of this run: exposure in bits all " in text
    metrics = audited.cell["metrics"]
    places = zip(*(metrics[c] for c in ("split", "slice", "metric")), strict=True)
    row = list(places).index(("audit", "tail", "exposure"))
    value, low, high, n = (metrics[name][row] for name in ("value", "lo", "hi", "n"))
    assert f"tail {value:.2f} [{low:.2f}, {high:.2f}] (n {n})" in text
    assert f"ε ≥ {audited.cell['audit_epsilon']:.3g} for any mechanism (confidence 95%)" in text
    assert "the claim is not refuted. Raw, outside ε" in text


def test_a_plain_run_shows_siblings_that_differ_in_audit_and_seed_alone(runs):
    plain, audited = runs
    at_the_end = (plain.folder / schema.LEDGER_PAGE).read_text(encoding="utf-8")
    assert "Memorisation: not measured" in words(at_the_end)
    text = words(shown_page(plain.folder))
    assert "Memorisation: audit=canaries of a run that differs in audit and seed alone" in text
    assert "audit=membership" not in text.split("Memorisation:")[1].split("Budget of tuning")[0]
    assert "audit=canaries" in words(shown_page(audited.folder))


def test_the_page_with_siblings_verifies_and_a_changed_sibling_is_named(runs):
    plain, _ = runs
    write_shown_page(plain.folder)
    assert read_json(plain.folder / schema.EVIDENCE_FILE)["memorisation"][0]["runs"] == 1
    verdict = verify(plain.folder, accountants=False)
    assert verdict.holds, [str(m) for m in verdict.findings.mismatches]


def cell(key, audit, *, seed=0, bound=0.5, refuted=False, **settings):
    names = ("split", "slice_kind", "slice", "metric", "value", "lo", "hi", "n", "release")
    row = ("audit", "all", "all", "exposure", 2.0 + seed, 1.0, 3.0, 10, "private")
    return {
        "run_key": key, "audit": audit, "audit_epsilon": bound, "audit_refuted": refuted,
        "audit_significance": 0.05, "config.seed": seed, "config.audit.name": audit,
        "metrics": {name: [value] for name, value in zip(names, row, strict=True)}, **settings,
    }  # fmt: skip


def test_of_several_siblings_values_are_means_and_refutations_are_counted():
    own = {"run_key": "a", "config.seed": 0, "config.audit.name": "none"}
    siblings = [
        cell("b", "canaries"),
        cell("c", "canaries", seed=1, bound=1.5, refuted=True),
        cell("d", "canaries", **{"config.clip.norm": 3.0}),
    ]
    (found,) = memorisation(own, siblings)
    assert found["runs"] == 2
    assert found["values"][0]["value"] == pytest.approx(2.5)
    assert found["values"][0]["lo"] is None
    assert found["epsilon"] == pytest.approx(1.0)
    assert (found["refuted"], found["claims"]) == (1, 2)


def test_without_an_audit_anywhere_it_is_not_measured():
    own = {"run_key": "a", "config.seed": 0, "config.audit.name": "none"}
    assert memorisation(own, [own | {"run_key": "b"}]) is None
