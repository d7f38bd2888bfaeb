"""The jobs of a sweep: a product, with exceptions that the command line overrules."""

from composed import loader

from hydra_plugins.clipping_atlas._expanding import override_lists

PARAMS = {"clip": "flat,nsgd", "clip.norm": "1,3", "seed": "0,1"}
WHERE = [{"clip": "nsgd,psac", "params": {"clip.norm": None, "clip.r": "0.1,0.2"}}]


def jobs(*words, params=PARAMS, where=WHERE):
    return override_lists(params, where, words, loader())


def test_without_exceptions_it_is_a_product_in_order():
    found = jobs(where=None, params={"clip": "flat,nsgd", "seed": "0,1"})
    assert found == [["clip=flat", "seed=0"], ["clip=flat", "seed=1"],
                     ["clip=nsgd", "seed=0"], ["clip=nsgd", "seed=1"]]  # fmt: skip


def test_an_exception_drops_a_key_and_sweeps_another_each_job_once():
    nsgd = [job for job in jobs() if "clip=nsgd" in job]
    assert nsgd == [["clip=nsgd", f"seed={seed}", f"clip.r={r}"]
                    for seed in (0, 1) for r in (0.1, 0.2)]  # fmt: skip
    assert sum("clip=flat" in job for job in jobs()) == 4


def test_what_the_command_line_names_holds_for_every_job():
    found = jobs("clip.norm=7", "clip.r=5", "seed=2")
    assert found == [["clip=flat", "clip.norm=7", "seed=2", "clip.r=5"],
                     ["clip=nsgd", "clip.norm=7", "seed=2", "clip.r=5"]]  # fmt: skip


def test_an_exception_for_what_nobody_chose_changes_nothing():
    assert jobs("clip=flat") == jobs("clip=flat", where=None)


def test_globs_and_quotes_are_hydras():
    found = jobs("clip=glob(a*)", "unit_name='a b,c'", params={}, where=None)
    assert ["clip=adaptive", "unit_name='a b,c'"] in found
    assert all(job[0].startswith("clip=a") for job in found)
