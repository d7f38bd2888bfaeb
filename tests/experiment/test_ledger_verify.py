"""A ledger that was touched does not hold; one that was not, does."""

import shutil

import pytest
from ledgers import Folder, entry_event

from analysis import schema
from dpsgd import ConfigError, PrivacyError, train
from dpsgd.experiment.seal import SEALED
from dpsgd.experiment.verify import verify
from dpsgd.ledger import main

WRITTEN = [name for name in SEALED if name != schema.AUDIT_FILE]
"""What a run without an audit leaves."""

TINY = {"debug": "fast", "tracker": "none", "telemetry.window": 2, "clip": "adaptive"}


def tiny(folder, **settings):
    return train(TINY | {"runs_dir": str(folder)} | settings)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A private run with two mechanisms in every step, and its baseline, finished before it."""
    folder = tmp_path_factory.mktemp("trained")
    tiny(folder, mechanism="neither")
    return tiny(folder).folder


@pytest.fixture
def run(trained, tmp_path):
    """A copy to spoil."""
    shutil.copytree(trained.parent, tmp_path / "runs")
    return Folder(tmp_path / "runs" / trained.name)


def mismatches(folder, **options):
    return [m.what for m in verify(folder, **options).findings.mismatches]


def test_an_untouched_run_and_its_baseline_hold(trained):
    for folder in (f.parent for f in trained.parent.glob("*/status.json")):
        verdict = verify(folder)
        assert verdict.holds, [str(m) for m in verdict.findings.mismatches]
        assert verdict.state.startswith("FINISHED, 3 of 3 steps")
    assert any("second opinion: rdp" in remark for remark in verify(trained).findings.remarks)


@pytest.mark.parametrize("name", WRITTEN)
def test_any_byte_of_any_file_that_a_run_left_is_bound(run, name):
    file = run.path / name
    file.write_bytes(file.read_bytes() + b"\n")
    assert any(schema.STATUS_FILE in m.where and name in m.what
               for m in verify(run.path, accountants=False).findings.mismatches)  # fmt: skip


@pytest.mark.parametrize("name", [*WRITTEN, schema.STATUS_FILE, schema.LEDGER_PAGE])
def test_a_file_that_is_gone_is_missed(run, name, capsys):
    (run.path / name).unlink()
    with pytest.raises(SystemExit) as left:
        main(["verify", str(run.path), f"runs_dir={run.path.parent}"])
    assert left.value.code == 1, capsys.readouterr().out


def ledger(change):
    return lambda run: run.ledger(change)


def of_entry(place, **changes):
    return ledger(lambda v: v["entries"][place].update(changes))


def _noisier(run):
    """Twice the noise everywhere that it is written, ε as it was."""

    def change(value):
        value["noise_multiplier"] *= 2
        for one in value["entries"]:
            one["noise_multiplier"] *= 2
            entry_event(one)["noise_multiplier"] *= 2

    run.ledger(change)
    run.cell(lambda v: v.update(noise_multiplier=2 * v["noise_multiplier"]))


def _louder(run):
    def change(value):
        value["entries"][0]["noise_multiplier"] *= 2
        entry_event(value["entries"][0])["noise_multiplier"] *= 2

    run.ledger(change)


def _rarer(run):
    def change(value):
        value["sampler"]["sampling_probability"] /= 2
        for one in value["entries"]:
            one["sampling_probability"] /= 2
            one["event"]["event"]["sampling_probability"] /= 2

    run.ledger(change)


def _covered(steps):
    """Entries for other steps than were taken."""

    def change(value):
        for one in value["entries"]:
            one.update(steps=steps, draw_id=f"1-{steps}")
            one["event"]["count"] = steps

    return lambda run: run.ledger(change)


def _fewer_everywhere(run):
    _covered(2)(run)
    run.ledger(lambda v: v.update(steps=2, steps_planned=2))
    run.cell(lambda v: v.update(steps=2, steps_planned=2))
    run.status(lambda v: v.update(step=2))


def _smaller_epsilon(run):
    def change(value):
        value["epsilon"] = value["epsilon_by_accountant"]["pld"] = 2.0

    run.ledger(change)
    run.cell(lambda v: v.update(epsilon=2.0))


def _other_streams(run):
    """Streams that look like no other run's."""

    def change(value):
        value["stream_id"] = "0" * 16
        for one in value["entries"]:
            one["stream_id"] = "0" * 16

    run.ledger(change)


FORGED = {
    "streams": (_other_streams, "stream_id"),
    "stream of an entry": (of_entry(0, stream_id="0" * 16), "entries[0].stream_id"),
    "common noise": (ledger(lambda v: v.update(common_noise=True)), "common_noise"),
    "denominator": (ledger(lambda v: v["sampler"].update(expected_units=1.0)), "expected_units"),
    "shares": (ledger(lambda v: v["shares"].update(gradient=1.0)), "shares of draw 1-3 gradient"),
    "ε of prv": (
        ledger(lambda v: v["epsilon_by_accountant"].update(prv=1.0)),
        "ε of the entries by prv",
    ),
    "ε of moments": (
        ledger(lambda v: v["epsilon_by_accountant"].update(moments=1.0)),
        "ε of the entries by moments",
    ),
    "ε": (_smaller_epsilon, "ε of the entries by pld"),
    "ε of rdp": (
        ledger(lambda v: v["epsilon_by_accountant"].update(rdp=1.0)),
        "ε of the entries by rdp",
    ),
    "ε in two places": (
        ledger(lambda v: v.update(epsilon=2.0)),
        "ε beside the accountant that certifies",
    ),
    "σ in words": (of_entry(0, noise_multiplier=9.0), "entries"),
    "σ of one": (_louder, "σ of the joint release of draw 1-3"),
    "σ of all": (_noisier, "ε of the entries by pld"),
    "share": (of_entry(1, share=0.5), "shares of draw 1-3"),
    "q": (_rarer, "entries[0].event.event.sampling_probability"),
    "T, fewer": (_covered(2), "steps without an entry"),
    "T, more": (_covered(4), "steps beyond those planned"),
    "T, everywhere": (_fewer_everywhere, "steps_planned"),
    "a mechanism left out": (
        ledger(lambda v: v["entries"].pop()),
        "σ of the joint release of draw 1-3",
    ),
    "a mechanism twice, as a draw of its own": (
        ledger(lambda v: v["entries"].append(v["entries"][1] | {"draw_id": "2-4"})),
        "entries",
    ),
    "all mechanisms": (ledger(lambda v: v["entries"].clear()), "steps without an entry"),
    "an unknown purpose": (of_entry(0, purpose="nothing"), "entries"),
    "an unknown event": (of_entry(0, event={"type": "Laplace"}), "entries"),
    "unit of an entry": (of_entry(0, unit="user"), "entries[0].unit"),
    "relation of an entry": (of_entry(0, relation="replace_one"), "entries[0].relation"),
    "relation": (ledger(lambda v: v.update(relation="replace_special")), "relation"),
    "unit": (ledger(lambda v: v.update(unit="user")), "unit"),
    "unit_name": (ledger(lambda v: v.update(unit_name="person")), "unit_name"),
    "δ": (ledger(lambda v: v.update(delta=1e-4)), "δ"),
    "n": (ledger(lambda v: v.update(n_units=10 * v["n_units"])), "sampler q"),
    "rule": (ledger(lambda v: v["clip_rule"].update(norm=9.0)), "clip_rule norm"),
    "cap": (ledger(lambda v: v["sampler"].update(max_records_per_user=1)),
            "sampler max_records_per_user"),
    "accountant": (ledger(lambda v: v["accountant"].update(grid=0.5)), "accountant grid"),
    "data": (ledger(lambda v: v.update(data_fingerprint="0")), "run_key"),
    "code": (ledger(lambda v: v.update(own_code={"mine": "0"})), "run_key"),
    "key": (ledger(lambda v: v.update(run_key="0" * 16)), "run_key"),
    "no privacy": (ledger(lambda v: v.update(private=False)), "ε without privacy"),
    "a key taken out": (ledger(lambda v: v.pop("entries")), "content"),
    "stopped_by": (ledger(lambda v: v.update(stopped_by="budget")), "stopped_by"),
    "config ε": (lambda run: run.config(lambda v: v.update(epsilon=1.0)), "ε within its target"),
    "config σ": (lambda run: run.config(lambda v: v.update(noise_multiplier=9.0)), "σ"),
    "config C": (lambda run: run.config(lambda v: v["clip"].update(norm=9.0)), "clip_rule norm"),
    "config batch": (lambda run: run.config(lambda v: v.update(batch=10.0)), "sampler q"),
    "config T": (lambda run: run.config(lambda v: v.update(steps=9)), "steps_planned"),
    "config seed": (lambda run: run.config(lambda v: v.update(seed=9)), "config_hash"),
    "cell σ": (lambda run: run.cell(lambda v: v.update(noise_multiplier=9.0)), "noise_multiplier"),
    "cell setting": (
        lambda run: run.cell(lambda v: v.update({"config.optim.lr": 9.0})),
        "setting config.optim.lr",
    ),
    "cell accuracy": (
        lambda run: run.cell(lambda v: v["metrics"].update(value=[1.0] * len(v["metrics"]["n"]))),
        "evidence utility",
    ),
    "a step missing": (
        lambda run: run.status(lambda v: v.update(step=2)),
        "steps taken by a finished run",
    ),
    "a step too many": (lambda run: run.status(lambda v: v.update(step=4)), "steps taken"),
    "steps after the budget": (
        lambda run: run.steps_of(schema.TELEMETRY_FILE, 4),
        "last step",
    ),
    "evaluated later": (lambda run: run.steps_of(schema.EVALUATION_FILE, 4), "last step"),
    "evidence": (
        lambda run: run.json(schema.EVIDENCE_FILE, lambda v: v.update(memorisation="none")),
        "evidence memorisation",
    ),
}  # fmt: skip
COSTLY = {"ε", "ε of rdp", "ε of prv", "ε of moments", "ε in two places", "σ in words",
          "σ of one", "σ of all", "share", "a mechanism left out",
          "a mechanism twice, as a draw of its own", "an unknown purpose",
          "an unknown event"}  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_a_forgery_that_was_sealed_again_is_named(run, kind):
    forge, what = FORGED[kind]
    forge(run)
    if kind != "a key taken out":
        run.reseal()
    assert what in mismatches(run.path, accountants=kind in COSTLY)


def test_more_noise_and_less_epsilon_together_are_not_what_was_solved(run):
    _noisier(run)
    _smaller_epsilon(run)
    run.reseal()
    assert "ε for which σ was solved" in mismatches(run.path, accountants=False)


def test_a_page_that_says_more_than_its_ledger_is_named(run):
    page = run.path / schema.LEDGER_PAGE
    page.write_text(page.read_text(encoding="utf-8").replace("ε = 3", "ε = 1"), encoding="utf-8")
    (found,) = verify(run.path, accountants=False).findings.mismatches
    assert (found.what, found.where) == ("page", "ledger.md")
    assert "ε = 1" in found.found
    assert "ε = 3" in found.expected


def test_only_a_seal_from_elsewhere_stops_a_forger_who_edits_every_file(run):
    seal = verify(run.path, accountants=False).seal
    run.ledger(lambda v: v["not_covered"].clear())
    run.reseal()
    assert mismatches(run.path, accountants=False) == []
    assert mismatches(run.path, accountants=False, seal=seal) == ["seal"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"ledger_version": 1}', "ledger_version=1: this program reads 2"),
        ('{"ledger_version": 3}', "ledger_version=3"),
        ("{}", "ledger_version=null"),
        ('{"ledger', "torn"),
        ("[]", "torn or no JSON"),
    ],
)
def test_a_ledger_of_another_version_and_none_at_all_are_said(run, text, message, capsys):
    (run.path / schema.LEDGER_FILE).write_text(text)
    with pytest.raises(ConfigError, match=message):
        verify(run.path)
    with pytest.raises(SystemExit) as left:
        main(["verify", str(run.path)])
    assert left.value.code == 1
    assert message in capsys.readouterr().out


def test_the_command_line_prints_a_line_a_mismatch_and_fails(run, capsys):
    with pytest.raises(SystemExit) as left:
        main(["verify", run.path.name[:6], f"runs_dir={run.path.parent}"])
    assert left.value.code == 0
    assert "holds" in capsys.readouterr().out
    run.status(lambda v: v.update(step=2))
    with pytest.raises(SystemExit) as left:
        main(["verify", str(run.path)])
    assert left.value.code == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if "✗" in line]
    assert len(lines) == 1
    for word in ("status.json", "expected 3", "found 2"):
        assert word in lines[0]
    with pytest.raises(SystemExit) as left:
        main(["verify", "no-such-run", f"runs_dir={run.path.parent}"])
    assert left.value.code == 2


def test_an_accountant_of_ones_own_is_held_against_pld(run):
    def change(value):
        value["accountant"] = {"_target_": "mine.Accountant", "name": "pld"}
        value["epsilon"] = value["epsilon_by_accountant"]["pld"] = 1.0

    run.ledger(change)
    assert "ε beside that of pld" in mismatches(run.path)


def test_another_release_from_the_streams_of_an_earlier_attempt_is_refused(run):
    run.status(lambda v: v.update(status="KILLED"))
    _noisier(run)
    with pytest.raises(PrivacyError, match="the same noise would cover two different sums"):
        tiny(run.path.parent)
