"""Rules between options: each is broken once on the command line and once by an estimator, before
any data are read, and says both options, the reason and what to do.
"""

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor, LowPrecisionSearchCV
from bitstep.cli import main
from bitstep.options.models import MODELS
from bitstep.options.rules import RULES, Request, RuleError
from bitstep.options.table import OPTIONS
from bitstep.options.words import COMMAND_LINE, PYTHON
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.exclusions import EXCLUSIONS, TRAITS
from bitstep.quantization import quantize, save_quantized
from bitstep.training.choices import check_options

HINGE = {"loss": "hinge"}
HUBER = {"loss": "huber"}
PACKED = {"device": {"name": "golden", "packed": True}}
CENTRED = {"solver": "bit-centred"}

# Name of a rule: arguments on the command line after MISSING, a file that is not there; parameters
# of an estimator (of a classifier if they have a loss that is not huber); and two options that the
# message names.
CASES = {
    "float bits": ("--bits 32 --encoding nearest", {"bits": 32, "encoding": "nearest"}),
    "float codes": ("--bits 4 --encoding float", {"bits": 4, "encoding": "float"}),
    "bit-plane rows": ("--planes 4 --copies 2", {"planes": 4, "copies": 2}),
    "corrected codes": ("--encoding compensated --model svm",
                        {"encoding": "compensated", **HINGE}),
    "copies of codes": ("--copies 2 --encoding nearest", {"copies": 2, "encoding": "nearest"}),
    "bound of a loss": ("--epsilon 2 --model linreg", {"epsilon": 2.0}),
    "refetched loss": ("--refetch --model logistic", {"refetch": True, "loss": "log_loss"}),
    "refetched batch": ("--refetch --batch 16 --model svm",
                        {"refetch": True, "batch": 16, **HINGE}),
    "two levels, one bit": ("--encoding double --bits 1", {"encoding": "double", "bits": 1}),
    "refetching, unbounded codes": ("--refetch --encoding double --model svm",
                                    {"refetch": True, "encoding": "double", **HINGE}),
    "refetching, codebooks": ("--refetch --levels optimal --bits 4 --model svm",
                                 {"refetch": True, "levels": "optimal", "bits": 4, **HINGE}),
    "codebooks, codes without a codebook": ("--levels optimal --encoding double",
                                     {"levels": "optimal", "encoding": "double"}),
    "codebooks, many levels": ("--levels optimal --bits 8", {"levels": "optimal", "bits": 8}),
    "few bits, no whole codes": ("--model-bits 4 --bits 32", {"model_bits": 4, "bits": 32}),
    "few bits, refetching": ("--update-bits 4 --refetch --model svm",
                             {"update_bits": 4, "refetch": True, **HINGE}),
    "packed rows, few bits": ("--packed --model-bits 4", {**PACKED, "model_bits": 4}),
    "packed rows, no whole codes": ("--packed --planes 4", {**PACKED, "planes": 4}),
    "packed rows, logistic loss": ("--packed --model logistic", {**PACKED, "loss": "log_loss"}),
    "packed rows, look-ahead": ("--packed --lookahead 3", {
        "device": {"name": "golden", "packed": True, "lookahead": 3}}),
    "packed rows, proximal steps": ("--packed --l1 0.1", {**PACKED, "l1": 0.1}),
    "packed rows, codebooks": ("--packed --levels optimal", {**PACKED, "levels": "optimal"}),
    "packed rows, refetching": ("--packed --refetch --model svm",
                               {**PACKED, "refetch": True, **HINGE}),
    "columns without an intercept": ("--no-intercept --scaler minmax",
                                     {"fit_intercept": False, "scaler": "minmax"}),
    "steps of a list": ("--step 1 --schedule steps.txt", {"step": 0.1, "schedule": [0.1] * 20}),
    "bit-centred, loss": ("--solver bit-centred --model svm", {**CENTRED, **HINGE}),
    "bit-centred, clipped loss": ("--solver bit-centred --model huber", {**CENTRED, **HUBER}),
    "bit-centred, penalty": ("--solver bit-centred --box 2", {**CENTRED, "box": 2.0}),
    "bit-centred, batch": ("--solver bit-centred --batch 4", {**CENTRED, "batch": 4}),
    "bit-centred, schedule": ("--solver bit-centred --schedule inverse-sqrt",
                              {**CENTRED, "schedule": "inverse-sqrt"}),
    "bit-centred, range": ("--solver bit-centred --model-range 3", {**CENTRED, "model_range": 3.0}),
    "bit-centred, early stopping": ("--solver bit-centred --early-stopping",
                                    {**CENTRED, "early_stopping": True}),
    "several models without packed rows": ("--models 9 --device sim", None),
    "rows to hold out": ("--validation-fraction 0.2", None),
    "epochs without gain": ("--n-iter-no-change 3", None),
    "epochs without gain, bit-centred": ("--n-iter-no-change 3 --tol 0.1 --solver bit-centred",
                                         None),
    "weights of a regression": ("--class-weight balanced --model linreg", None),
    "sweep, planes": ("--sweep l2=0,1 --planes auto", {"planes": "auto"}),
    "sweep, stopping": ("--sweep l2=0,1 --solver sgd --tol 0.1", {"solver": "sgd", "tol": 0.1}),
    "sweep, one training": ("--sweep l2=0,1 --checkpoint kept.ckpt", None),
}
# Of other commands: all arguments.
COMMANDS = {
    "fine rows, unbounded codes": "quantize MISSING --fine-rows --encoding double --out x.npz",
    "fine rows, codebooks": "quantize MISSING --fine-rows --levels optimal --encoding nearest "
    "--out x.npz",
    "refetching, logistic loss": "rtl --refetch --loss-family logistic",
    "several models, refetching": "bench MISSING --models 2 --refetch --model svm",
    "several models, bit-plane rows": "rtl --bit-planes --models 2",
    "several models, few bits": "rtl --models 2 --model-bits 4",
    "packed rows, slow updates": "rtl --packed --update-interval 4",
    "batches without waiting, batches of one row": "rtl --update-interval 1 --no-minibatch",
    "batches without waiting, refetching": "rtl --update-interval 1 --refetch",
    "batches without waiting, bit-plane rows": "rtl --update-interval 1 --bit-planes",
    "look-ahead between batches, waiting within batches":
        "rtl --batch-lookahead 3 --update-interval 2",
    "look-ahead between batches, floating-point rows":
        "rtl --batch-lookahead 3 --bits 32",
    "look-ahead between batches, few bits":
        "rtl --batch-lookahead 3 --model-bits 4",
    "length of packed rows": "rtl --packed --features 5",
}
# Rules that need the shape or the labels of the data: a file, and arguments.
WITH_DATA = {
    "features of packed rows": ("wide", "--packed --bits 1", {**PACKED, "bits": 1}),
    "features of bit planes": ("vast", "--planes 4", None),
    "features of bit-centred training": ("vast", "--solver bit-centred", None),
    "beats of packed rows": ("narrow", "--packed --bits 8", {**PACKED, "bits": 8}),
    "weights of a regression": ("wide", "--class-weight balanced", None),
    "choice of stored rows": ("codes", "--train-rows 5", None),
    "weights of stored rows": ("codes", "--class-weight balanced", None),
    "held-out stored rows": ("codes", "--early-stopping", None),
    "planes of stored rows": ("codes", "--planes 4", None),
    "refetched file": ("codes", "--refetch --model svm", None),
    "stored labels of a classification": ("codes", "--model linreg", None),
    "stored labels of a regression": ("targets", "--model svm", None),
}
PARTIAL = {
    "early stopping of a part": {"early_stopping": True},
    "planes of a part": {"planes": "auto"},
    "bound of a part": HUBER,
    "weights of a part": {"class_weight": "balanced", "loss": "log_loss"},
}
RULE = {rule.name: rule for rule in RULES}


def estimator_of(parameters):
    """The estimator that has such a loss."""
    regression = parameters.get("loss", "huber") == "huber"
    return (LowPrecisionRegressor if regression else LowPrecisionClassifier)(**parameters)


class Unread:
    """Data that must not be read."""

    def __array__(self, *_, **__):
        raise AssertionError("data were read")


def test_every_rule_has_a_case():
    assert len(RULE) == len(RULES)
    assert {*CASES, *COMMANDS, *WITH_DATA, *PARTIAL} == set(RULE)


def options_in(text):
    """Options of a case."""
    return [word for word in text.split() if word.startswith("--")]


def check_text(rule, words, text, *names):
    """The message of a rule names options, the reason and a remedy."""
    assert words.fill(rule.reason) in text
    assert words.fill(rule.remedy) in text
    for name in names:
        assert name in text


def refusal(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("name", CASES)
def test_train_before_data_are_read(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = CASES[name][0]
    device = [] if "--device" in options else ["--device", "golden"]
    text = refusal(capsys, ["train", "MISSING.csv", *options.split(), *device])
    check_text(RULE[name], COMMAND_LINE, text, *options_in(options)[:2 - ("--models" in options)])


@pytest.mark.parametrize("name", COMMANDS)
def test_other_commands(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = COMMANDS[name].replace("MISSING", "MISSING.csv").split()
    text = refusal(capsys, words)
    first = options_in(COMMANDS[name])[:2]
    check_text(RULE[name], COMMAND_LINE, text, *first)


@pytest.fixture(name="files")
def _files(tmp_path):
    """Rows of 70, 20 and 65,537 features with targets, and codes of two classes and of a
    regression.
    """
    rng = np.random.default_rng(0)
    rows, targets = rng.uniform(-1, 1, (30, 70)), rng.uniform(0, 10, 30)
    paths = {name: str(tmp_path / f"{name}.npz") for name in ("wide", "narrow", "vast", "codes",
                                                                 "targets")}
    np.savez(paths["vast"], X=np.ones((2, (1 << 16) + 1)), y=targets[:2])
    for name, count in (("wide", 70), ("narrow", 20)):
        np.savez(paths[name], X=rows[:, :count], y=targets)
    for name, labels, task in (("codes", targets > 5, "classification"),
                               ("targets", targets, "regression")):
        save_quantized(quantize(rows, labels, bits=4, encoding="nearest", task=task), paths[name])
    return paths


@pytest.mark.parametrize("name", WITH_DATA)
def test_rules_that_need_data(name, files, monkeypatch, capsys):
    """No row is quantized before they are decided."""
    file, options, parameters = WITH_DATA[name]
    monkeypatch.setattr("bitstep.cli.problem.rows_of", None)
    text = refusal(capsys, ["train", files[file], *options.split(), "--device", "golden"])
    check_text(RULE[name], COMMAND_LINE, text, options_in(options)[0])
    if parameters is not None:
        with np.load(files[file]) as data:
            rows, targets = data["X"], data["y"]
        with pytest.raises(RuleError) as error:
            LowPrecisionRegressor(**parameters).fit(rows, targets)
        check_text(RULE[name], PYTHON, str(error.value), "packed=True")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[1] is not None])
def test_estimators_before_data_are_read(name):
    parameters = CASES[name][1]
    estimator = estimator_of(parameters)
    fit = estimator.fit if not name.startswith("sweep") else lambda X, y: estimator.fit_candidates(
        X, y, [{"l2": 0.0}, {"l2": 1.0}])
    with pytest.raises(RuleError) as error:
        fit(Unread(), Unread())
    assert error.value.rule == name
    named = ["packed=" if part == "device" else f"{part}=" for part in parameters
             if part != "loss" or len(parameters) == 2]
    check_text(RULE[name], PYTHON, str(error.value), *named[:2])


@pytest.mark.parametrize("name", PARTIAL)
def test_calls_on_a_part_of_the_rows(name):
    parameters = PARTIAL[name]
    estimator = estimator_of(parameters)
    with pytest.raises(RuleError) as error:
        estimator.partial_fit(Unread(), Unread())
    assert error.value.rule == name
    check_text(RULE[name], PYTHON, str(error.value), "partial_fit")


# A choice of each group of a configuration's choices.
CHOICES = {
    "refetching": {"refetch": True, "lookahead": 0}, "codebooks": {"codebooks": True},
    "proximal steps": {"proximal": True}, "few bits": {"model_bits": 4},
    "packed rows": {"packed": True, "max_features": 1, "lookahead": 0},
    "several models": {"models": 2}, "row weights": {"row_weights": True},
    "look-ahead between batches": {"batch_lookahead": 3, "update_interval": 1},
    "waiting within batches": {"update_interval": 2},
    "floating-point rows": {"row_format": "float32", "bits": 32, "update_interval": 1},
    "look-ahead": {"lookahead": 3}, "slow updates": {"update_interval": 4},
    "batches without waiting": {"update_interval": 1}, "batches of one row": {"minibatch": False},
    "logistic loss": {"loss_family": "logistic", "update_interval": 6}, "one bit": {"bits": 1},
    "many levels": {"bits": 8}, "two levels": {"row_format": "two_levels"},
    "unbounded codes": {"row_format": "two_levels"},
    "codes without a codebook": {"row_format": "two_levels"},
    "bit-plane rows": {"row_format": "bit_planes", "bits": 16},
    "no whole codes": {"row_format": "float32", "bits": 32}}


@pytest.mark.parametrize("rule", EXCLUSIONS, ids=lambda rule: f"{rule.one}, {rule.other}")
def test_configurations(rule):
    """A configuration gives the reason that the options give."""
    choices = {**CHOICES[rule.one], **CHOICES[rule.other]}
    if rule.other == "logistic loss" and rule.one == "packed rows":
        choices["lookahead"] = 0
    with pytest.raises(ValueError, match="does not go together with") as error:
        PipelineConfig(**choices)
    assert f": {rule.reason}; leave one of the two out" in str(error.value)
    for trait in (rule.one, rule.other):
        assert any(f"{name}=" in str(error.value) for name in TRAITS[trait])


def test_defaults_and_lone_options_are_said():
    request = Request(COMMAND_LINE, {"packed": True, "refetch": None}, {"refetch": True})
    with pytest.raises(RuleError, match=r"^--packed does not go together with --refetch "
                       r"\(by default\): .*; choose --no-refetch, or leave --packed out$"):
        request.check()
    with pytest.raises(RuleError, match=r"^--validation-fraction 0.2 needs --early-stopping: it "):
        Request(COMMAND_LINE, {"validation_fraction": 0.2, "early_stopping": False}).check()
    with pytest.raises(RuleError, match=r"^--class-weight balanced needs features, and q\.npz is "
                       r"quantized already: "):
        Request(COMMAND_LINE, {"class_weight": "balanced"}, facts={"stored": "q.npz"}).check()


def broken(words=COMMAND_LINE, defaults=None, facts=None, **asked):
    with pytest.raises(RuleError) as error:
        Request(words, asked, defaults or {}, facts or {}).check()
    return str(error.value)


def test_what_nobody_asked_for_is_not_to_be_left_out():
    assert broken(levels="optimal", defaults={"bits": 8}) == (
        "--levels optimal does not go together with --bits 8 (by default): a table takes memory "
        "in every lane, which has room for 32 levels; choose at most 5 --bits, or leave "
        "--levels out")
    assert broken(PYTHON, levels="optimal", defaults={"bits": 8}).endswith(
        "; choose at most 5 bits, or leave levels out")
    assert broken(packed=True, defaults={"model": "logistic"}).endswith(
        "; choose another --model, or leave --packed out")
    assert broken(model_bits=4, defaults={"bits": 32}, facts={"stored_encoding": "float"}) == (
        "--model-bits 4 does not go together with --bits 32 (of the file): a model and updates are "
        "rounded for rows of 1 to 8 bits alone; leave --model-bits out")
    assert broken(model_bits=4, bits=32).endswith("; leave one of the two out")
    assert broken(packed=True, defaults={"refetch": True}, facts={"stored_encoding": "nearest"}
                  ).startswith("--packed does not go together with --refetch (by default): ")


def test_copies_of_a_file_are_not_asked_for():
    """From Python a file may have several that are the same."""
    of_the_file = {"copies": 2, "encoding": "nearest"}
    Request(COMMAND_LINE, {}, of_the_file, {"stored_encoding": "nearest"}).check()
    assert broken(copies=2, defaults=of_the_file, facts={"stored_encoding": "nearest"}).startswith(
        "--copies 2 does not go together with --encoding nearest (of the file): ")


MANY = {"many_machines": "--workers"}


@pytest.mark.parametrize("asked, reason, remedy", [
    ("--model svm", "it is for losses whose derivative is continuous, all but the hinge",
     "choose another --model, or train without --workers"),
    ("--model huber", "its inner passes have no derivative that is clipped",
     "choose another --model, or train without --workers"),
    ("--l1 0.5", "it is for objectives with --l2 alone",
     "choose --l2, or train without --workers"),
    ("--bits 4", RULE["bit-plane rows"].reason, "leave one of the two out"),
    ("--batch 4", "its passes have batches of one row", "leave one of the two out")])
def test_many_machines_are_refused_by_their_own_name(asked, reason, remedy):
    """Who asks for them has not chosen a solver, and cannot choose another one."""
    name, value = asked[2:].split()
    known: Any = value if name == "model" else float(value) if "." in value else int(value)
    assert broken(facts=MANY, solver="bit-centred", **{name: known}) == (
        f"--workers (solver bit-centred) does not go together with {asked}: {reason}; {remedy}")


def test_what_many_machines_do_not_go_with_by_default():
    assert broken(facts=MANY, solver="bit-centred",
                  defaults={"batch": 4}).endswith(
        "; choose another --batch, or leave --workers out")


def test_a_search_is_refused_by_its_own_name():
    """Its users do not call ``fit_candidates`` themselves."""
    search = LowPrecisionSearchCV(LowPrecisionRegressor(solver="sgd", tol=0.1),
                                  {"l2": [0.0, 1.0]}, cv=2)
    with pytest.raises(RuleError, match=r"^LowPrecisionSearchCV or fit_candidates and "
                       r"solver='sgd' do not go together with tol=0.1: candidates share "
                       "their epochs; compare them without it, then train with the best values$"):
        search.fit(np.ones((4, 1)), np.arange(4.0))


def test_several_options_of_a_group_are_a_plural():
    text = broken(model_bits=4, update_bits=2, bits=32)
    assert text.startswith("--model-bits 4 and --update-bits 2 do not go together with --bits 32: ")
    assert broken(planes=4, solver="bit-centred", facts={"stored_encoding": "nearest"}).startswith(
        "--planes 4 and --solver bit-centred need bit-plane rows, ")


@pytest.mark.parametrize("command", [
    "train MISSING.csv --model svm --refetch", "quantize MISSING.csv --out x.npz --fine-rows",
    "rtl --out x.v --refetch"])
def test_rows_that_may_be_read_again_need_few_bits(command, capsys):
    """An encoding alone is no remedy for 32 bits, which have their own."""
    text = refusal(capsys, [*command.split(), "--bits", "32"])
    assert ("does not go together with --bits 32: the codes of rows that may be read again must "
            "bound their values; choose --encoding nearest or --encoding stochastic, with at most "
            "8 --bits, or leave --") in text


def test_models_of_a_generated_pipeline(capsys):
    text = refusal(capsys, ["rtl", "--models", "9", "--out", "x.v"])
    assert text == ("bitstep rtl: error: --models 9 needs --packed: padded rows allow at most 8 "
                    "models in a pass; choose up to 8, or packed rows")


@pytest.mark.parametrize("options", ["--encoding float", "--bits 32", "--bits 32 --encoding float"])
def test_bit_plane_rows_are_refused_by_what_was_asked_for(options, capsys):
    """Not by the bits and the encoding that they have by default."""
    text = refusal(capsys, ["train", "MISSING.csv", "--planes", "4", *options.split()])
    assert f"--planes 4 does not go together with {options.split(' --')[0]}" in text
    assert "bit-plane rows are one copy of 16 bits a value" in text
    assert "by default" not in text


def test_a_tolerance_of_0_stops_nothing(capsys):
    text = refusal(capsys, ["train", "MISSING.csv", "--tol", "0", "--n-iter-no-change", "2"])
    assert "--n-iter-no-change 2 needs --early-stopping or --tol above 0, not --tol 0: " in text


MODELS_OF_A_PASS = {"--model svm": HINGE, "--planes 4": {"planes": 4},
                    "--solver bit-centred": CENTRED, "--model-bits 4": {"model_bits": 4}}


@pytest.mark.parametrize("options", MODELS_OF_A_PASS)
def test_a_pass_of_several_models_is_refused_before_data_are_read(options, capsys):
    text = refusal(capsys, ["train", "MISSING.csv", "--device", "sim", "--models", "2",
                            *options.split()])
    assert "--models 2 does not go together with --" in text
    parameters = MODELS_OF_A_PASS[options]
    estimator = (LowPrecisionClassifier if "loss" in parameters else LowPrecisionRegressor)(
        **parameters, device={"name": "sim", "models": 2})
    with pytest.raises(RuleError, match=r"^models=2 does not go together with "):
        estimator.fit(Unread(), Unread())


def test_parameters_of_the_estimators_are_those_of_the_table():
    """Names, and defaults where both have one."""
    named = {option.python: option for option in OPTIONS.values() if option.python}
    for estimator in (LowPrecisionRegressor(), LowPrecisionClassifier()):
        parameters = estimator.get_params()
        own = {"device", "feature_range", "label_range", "warm_start", "verbose"}
        assert set(parameters) - own <= set(named)
        for name in set(parameters) & set(named):
            option, value = named[name], parameters[name]
            if option.default is not None:
                assert value == option.default, name
            elif value not in ("auto", None) and name != "loss":
                said = "yes" if value is True else value if isinstance(value, str) else f"{value:g}"
                assert option.default_text.startswith(said), name
    everything = set(LowPrecisionClassifier().get_params()) | {
        "epsilon", "bus_width", "lookahead", "packed", "models"}
    assert set(named) <= everything


@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in ("sweep",)])
def test_options_take_their_defaults(name):
    """The command line reads what the table says, and the help says the default."""
    parser = argparse.ArgumentParser()
    OPTIONS[name].declare(parser)
    assert getattr(parser.parse_args([]), name) == OPTIONS[name].default
    if OPTIONS[name].default_text:
        assert "(default: " in " ".join(parser.format_help().split())
    if OPTIONS[name].default is not None:
        OPTIONS[name].kind.check(name, OPTIONS[name].default)


def test_every_option_says_what_it_becomes():
    fields = PipelineConfig.__dataclass_fields__
    assert all(option.sets and option.help for option in OPTIONS.values())
    for name in ("bits", "packed", "lookahead", "bus_width", "max_features"):
        assert OPTIONS[name].sets in fields
    assert replace(OPTIONS["l2"], name="l1").flag == "--l1"
    assert {model.sklearn_loss for model in MODELS.values()} == {
        "squared_error", "huber", "squared_hinge", "hinge", "log_loss"}


def test_checks_that_are_kept_are_those_of_the_same_values():
    """1, True and 1.0 are equal, and so are requests of them; a request is not what it was before.
    """
    for _ in range(2):
        assert check_options(Request(PYTHON, {"model": "linreg", "batch": 1}))["batch"] == 1
        for value in (True, 1.0):
            with pytest.raises(ValueError, match="batch must be an integer"):
                check_options(Request(PYTHON, {"model": "linreg", "batch": value}))
        with pytest.raises(RuleError):
            Request(PYTHON, {"solver": "bit-centred", "l1": 0.1}).check()
        Request(PYTHON, {"solver": "bit-centred", "l1": None}).check()
