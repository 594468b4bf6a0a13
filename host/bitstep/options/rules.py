"""Rules between options: what does not go together, the reason, and what to do.

A rule is about two traits. A trait is a group of values of options, such as "rows of floating-point
numbers", which ``bits=32`` and ``encoding="float"`` ask for. Traits that a pipeline's hardware
has are those of :data:`bitstep.pipeline.parts.exclusions.TRAITS`, and rules between them are its
:data:`~bitstep.pipeline.parts.exclusions.EXCLUSIONS`, with the same reasons.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from bitstep.options.models import MODELS
from bitstep.options.table import LEAST_OUTER_STEPS, OPTIONS, SCHEDULES
from bitstep.options.words import Words
from bitstep.pipeline.encodings import ENCODINGS, Encoding
from bitstep.pipeline.losses import LOSSES, LossFunction
from bitstep.pipeline.parts.exclusions import EXCLUSIONS, TRAITS, reason_of
from bitstep.pipeline.parts.formats import (
    BIT_PLANE_BITS,
    BIT_PLANES,
    FLOAT_BITS,
    MAX_BIT_PLANE_FEATURES,
    MAX_CODEBOOK_BITS,
    MAX_PACKED_FEATURES,
)
from bitstep.pipeline.parts.widths import MAX_MODELS

Test = Callable[[Any], bool]

# What is known of the data, with its words.
FACTS = {
    "stored": "{} is quantized already",
    "stored_encoding": "those of the file have encoding {}",
    "stored_task": "the file was quantized for a {}",
    "no_fine_rows": "{} has none",
    "n_features": "{} features",
    "wide_rows": "{} features",
    "row_bits": "{}",
    "partial_fit": "partial_fit",
    "warm_start": "warm_start=True",
    "joint_classes": "classes that are trained together",
    "no_bit_planes": "device {}",
    "many_machines": "{}",      # which have one solver: it is chosen with them, not by itself
}

CHOOSE_SGD = "choose {solver=sgd}"
LEAVE_ONE = "leave one of the two out"

# Options that a quantized file answers.
STORED = ("bits", "encoding", "copies", "bus_width", "scaler", "levels", "seed")


class RuleError(ValueError):
    """Options that do not go together.

    Attributes
    ----------
    rule : str
        Name of the rule.
    """

    def __init__(self, rule: str, message: str):
        super().__init__(message)
        self.rule = rule


KNOWN_TYPES = (type(None), bool, int, float, str)


@dataclass(frozen=True)
class Request:
    """Options that a user gives, what is known of the data, and defaults.

    Attributes
    ----------
    words : Words
        Of messages.
    asked : dict by name
        Values of :data:`OPTIONS`; None where an option is left open.
    defaults : dict by name
        Values that options left open have.
    facts : dict by name
        Values of :data:`FACTS`.
    """

    words: Words
    asked: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """Value of an option or fact; None if it is open or unknown."""
        return self._values.get(name)

    @cached_property
    def _values(self) -> dict[str, Any]:
        """Values of all options and facts that have one."""
        return {name: value for values in (self.defaults, self.facts, self.asked)
                for name, value in values.items() if value is not None}

    def asking(self, **asked: Any) -> "Request":
        """The request with other options."""
        return replace(self, asked={**self.asked, **asked})

    def filled(self, **defaults: Any) -> "Request":
        """The request with values of options that were left open."""
        return replace(self, defaults={**self.defaults, **defaults})

    def knowing(self, **facts: Any) -> "Request":
        """The request with more known of the data."""
        return replace(self, facts={**self.facts, **facts})

    def asks(self, name: str) -> bool:
        """True for an option that a user gives, or a fact."""
        return self.asked.get(name) is not None or name in FACTS

    def check(self) -> None:
        """Raise RuleError for the first rule that is broken, of those that can be decided yet."""
        kept_if_alike(_check_rules, self)

    @cached_property
    def like(self) -> Hashable:
        """What requests that are checked alike have in common: words, names, and values with their
        types, as 1 and True are equal; None if there are other values than these.
        """
        values = [(name, value) for part in (self.asked, self.defaults, self.facts)
                  for name, value in (("", None), *part.items())]
        if not all(isinstance(value, KNOWN_TYPES) for _, value in values):
            return None
        return self.words, *((name, type(value), value) for name, value in values)

    def say(self, name: str, *, valued: bool = True) -> str:
        """An option with its value, or alone, or a fact."""
        if name == "solver" and self["many_machines"] is not None:
            return self.say("many_machines") + (f" (solver {self[name]})" if valued else "")
        if not valued:
            return self.words.say(name, None)
        if name in FACTS:
            return FACTS[name].format(self[name])
        value = self[name]
        if value is None or (value is False and getattr(OPTIONS[name].kind, "lone", False)):
            return ""
        if self.asked.get(name) is not None:
            return self.words.say(name, value)
        source = "of the file" if name in STORED and "stored_encoding" in self.facts \
            else "by default"
        return f"{self.words.say(name, value)} ({source})"

    def fill(self, text: str) -> str:
        """A text with options in the words of the user, and a choice of solver as what it is."""
        if self["many_machines"] is not None:
            text = text.replace(CHOOSE_SGD, f"train without {self.say('many_machines')}")
        return self.words.fill(text)


@dataclass(frozen=True)
class _Alike:
    """A request that is equal to those that are checked alike."""

    like: Hashable
    request: Request = field(compare=False)


def kept_if_alike(check: Callable[[Request], Any], request: Request) -> Any:
    """``check(request)``, or what it returned for a request that is alike: all rules take as long
    as a pass over few rows.
    """
    if request.like is None:
        return check(request)
    return _kept(check, _Alike(request.like, request))


@lru_cache(128)
def _kept(check: Callable[[Request], Any], alike: _Alike) -> Any:
    return check(alike.request)


def _check_rules(request: Request) -> None:
    for rule in RULES:
        rule.check(request)


@dataclass(frozen=True)
class Trait:
    """Values of options, or facts, that a rule is about.

    Attributes
    ----------
    tests : dict of callable by name
        Whether a value is of the trait; None is the value of what is open.
    every : bool
        True if all of them must be.
    """

    tests: Mapping[str, Test]
    every: bool = False

    def holding(self, request: Request) -> list[str] | None:
        """Names of the options that have the trait: those that were asked for, else those that have
        it otherwise; None if none has.
        """
        holding = [name for name, test in self.tests.items()
                   if test(request.asked.get(name) if test in OF_ASKED and name not in FACTS
                           else request[name])]
        if not holding or (self.every and len(holding) < len(self.tests)):
            return None
        return [name for name in holding if request.asks(name)] or holding


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule: two traits exclude each other.

    Attributes
    ----------
    name : str
    one, other : Trait
    reason : str
        Why, as a clause. ``{l2}`` and ``{batch=1}`` are options in the words of the user.
    remedy : str
        What to do.
    needs : str
        What ``one`` needs, of a rule that is better said so; "" for others.
    """

    name: str
    one: Trait
    other: Trait
    reason: str
    remedy: str = LEAVE_ONE
    needs: str = ""

    def broken(self, request: Request) -> tuple[list[str], list[str]] | None:
        """Options of either trait, if a request breaks the rule."""
        one = self.one.holding(request)
        other = None if one is None else self.other.holding(request)
        return None if one is None or other is None else (one, other)

    def against(self, request: Request, option: str) -> str | None:
        """What does not go together with an option, and why, if a request breaks the rule."""
        broken = self.broken(request)
        if broken is None:
            return None
        met = [names for names in broken if option not in names] or [broken[1]]
        return f"{_listed(request, met[0])}: {request.words.fill(self.reason)}"

    def check(self, request: Request) -> None:
        """Raise RuleError if a request breaks the rule."""
        broken = self.broken(request)
        if broken is None:
            return
        one, other = broken
        fill = request.fill
        subject, met = _listed(request, one), _listed(request, other)
        several = " and " in subject
        if self.needs:
            join = ", and" if self.other.tests.keys() <= FACTS.keys() else ", not"
            text = f"{subject} need{'' if several else 's'} {fill(self.needs)}" \
                + (f"{join} {met}" if met else "")
        else:
            text = f"{subject} {'do' if several else 'does'} not go together with {met}"
        remedy = _left_out(request, one, other) if self.remedy == LEAVE_ONE else fill(self.remedy)
        raise RuleError(self.name, f"{text}: {fill(self.reason)}; {remedy}")


def _listed(request: Request, names: list[str], *, valued: bool = True) -> str:
    """Options with their values, or alone; "" for those that are left open."""
    return " and ".join(filter(None, (request.say(name, valued=valued) for name in names)))


def _left_out(request: Request, one: list[str], other: list[str]) -> str:
    """Which of two groups of options to leave out: not what nobody asked for."""
    for asked, rest in ((one, other), (other, one)):
        if not any(map(request.asks, rest)):
            leave = f"leave {_listed(request, asked, valued=False)} out"
            return leave if "stored_encoding" in request.facts and set(rest) & set(STORED) else \
                f"choose another {_listed(request, rest, valued=False)}, or {leave}"
    return LEAVE_ONE


def why_not_centred(request: Request) -> str | None:
    """Why solver ``auto`` is not ``bit-centred``, for a request of that solver; None if it is."""
    found = (rule.against(request, "solver") for rule in (*RULES, *AUTOMATIC))
    return next((text for text in found if text), None)


# Tests of values

def given(value: Any) -> bool:
    """True for a value that is not left open; a default does not count."""
    return value is not None


def several(value: Any) -> bool:
    """True for more than one that is asked for; a quantized file may hold as many."""
    return value is not None and value > 1


OF_ASKED = (given, several)     # tests that defaults and stored rows do not count for


def missing(value: Any) -> bool:
    """True for a value that is left open, or no."""
    return not value


def is_(*values: Any) -> Test:
    """True for some values."""
    return lambda value: np.ndim(value) == 0 and value in values


def not_(*values: Any) -> Test:
    """True for other values than these, if one is given."""
    return lambda value: value is not None and not (np.ndim(value) == 0 and value in values)


def above(limit: float) -> Test:
    """True for larger numbers."""
    return lambda value: value is not None and value > limit


def below(limit: float) -> Test:
    """True for smaller numbers."""
    return lambda value: value is not None and value < limit


def loss(test: Callable[[LossFunction], Any]) -> Test:
    """True for models whose loss is so."""
    return lambda model: model is not None and bool(test(LOSSES[MODELS[model].loss]))


def encoding(test: Callable[[Encoding], Any]) -> Test:
    """True for encodings that are so."""
    return lambda name: name in ENCODINGS and bool(test(ENCODINGS[name]))


def task(name: str) -> Test:
    """True for models of a task."""
    return lambda model: model is not None and MODELS[model].task == name


# Traits

BIT_PLANE_ROWS = {"planes": given, "solver": is_("bit-centred"), "bit_planes": bool,
                  "encoding": is_(BIT_PLANES)}
FLOAT_ROWS = {"bits": is_(FLOAT_BITS), "encoding": is_("float")}
BIT_CENTRED = Trait({"solver": is_("bit-centred")})
STOPPING = {"early_stopping": bool, "tol": bool}
SWEEP = Trait({"sweep": bool})
SGD_SWEEP = Trait({"sweep": bool, "solver": is_("sgd")}, every=True)
SGD_PLANES = Trait({"planes": is_("auto"), "solver": is_("sgd")}, every=True)
PROXIMAL = {"l1": bool, "box": given}

# Options that ask for what the hardware's traits are, besides the fields of a configuration.
_ASKED: dict[str, dict[str, Test]] = {
    "codebooks": {"levels": is_("optimal")},
    "proximal steps": PROXIMAL,
    "several models": {"device_models": above(1)},
    "few bits": {"update_bits": bool},
    "logistic loss": {"loss_family": is_("logistic"),
                      "model": loss(lambda rule: rule.loss_family == "logistic")},
    "unbounded codes": {**FLOAT_ROWS, **BIT_PLANE_ROWS, "encoding": lambda name: name == BIT_PLANES
                        or encoding(lambda one: not one.cell)(name)},
    "codes without a codebook": {**FLOAT_ROWS, **BIT_PLANE_ROWS,
                                 "encoding": lambda name: name == BIT_PLANES
                       or encoding(lambda one: not one.tabled)(name)},
    "two levels": {"encoding": encoding(lambda one: 1 < one.min_bits < FLOAT_BITS)},
    "floating-point rows": FLOAT_ROWS,
    "bit-plane rows": BIT_PLANE_ROWS,
    "no whole codes": {**FLOAT_ROWS, **BIT_PLANE_ROWS, "encoding": is_("float", BIT_PLANES)},
}
HARDWARE = {trait: Trait({name: test for name, test in {**fields, **_ASKED.get(trait, {})}.items()
                          if name in OPTIONS}) for trait, fields in TRAITS.items()}


REMEDIES = {
    "codebooks, many levels": f"choose at most {MAX_CODEBOOK_BITS} {{bits}}, or leave {{levels}} "
    "out",
    "refetching, unbounded codes": "choose {encoding=nearest} or {encoding=stochastic}, with at "
    "most 8 {bits}, or leave {refetch} out",
    "packed rows, refetching": "choose {refetch=False}, or leave {packed} out",
    "several models, refetching": "choose one of {models=1} and {refetch=False}",
}

RULES: tuple[Rule, ...] = (
    # Quantized files
    Rule(name="choice of stored rows", one=Trait({
             "train_rows": given, "shuffle": given, "seed": given, "label_column": given}),
         other=Trait({"stored": given}), needs="features",
         reason="rows, order, seed and label are chosen when a file is quantized",
         remedy="choose them with `bitstep quantize`"),
    Rule(name="weights of stored rows", one=Trait({"class_weight": given}),
         other=Trait({"stored": given}), needs="features",
         reason="weights of rows are chosen before these are quantized",
         remedy="train on the file that it was made of"),
    Rule(name="held-out stored rows", one=Trait({"early_stopping": bool}),
         other=Trait({"stored": given}), needs="features",
         reason="rows are held out before they are quantized",
         remedy="train on the data that it was made of, or stop by the loss of the rows to train "
         "on, with {tol} alone"),
    Rule(name="planes of stored rows",
         one=Trait({"planes": given, "solver": is_("bit-centred")}),
         other=Trait({"stored_encoding": not_(BIT_PLANES)}), needs="bit-plane rows",
         reason="it reads rows bit plane by bit plane",
         remedy="write them with `bitstep quantize --bit-planes` "
                "(bitstep.quantization.quantize_bit_planes)"),
    *(Rule(name=f"stored labels of a {stored}", one=Trait({"model": task(wanted)}),
           other=Trait({"stored_task": is_(stored)}), needs=f"labels of a {wanted}",
           reason="labels are stored as they were quantized", remedy="choose another {model}, or "
           "quantize the data again")
      for wanted, stored in (("classification", "regression"),
                             ("regression", "classification"))),

    # Rows
    Rule(name="bit-plane rows", one=Trait({name: test for name, test in BIT_PLANE_ROWS.items()
                                       if name != "encoding"}),
         other=Trait({"bits": not_(BIT_PLANE_BITS), "encoding": not_(BIT_PLANES),
                      "copies": above(1),
                      "levels": is_("optimal"), "refetch": bool, "fine_rows": bool}),
         reason="bit-plane rows are one copy of 16 bits a value, in an encoding of their own, with "
         "equally spaced levels"),
    *(Rule(name=name, one=one, other=Trait({"wide_rows": given}),
           reason=f"bit-plane rows are for up to {MAX_BIT_PLANE_FEATURES:,} features",
           remedy=f"{remedy}, or take fewer features")
      for name, one, remedy in (
          ("features of bit planes", Trait({"planes": given, "bit_planes": bool}), "leave it out"),
          ("features of bit-centred training", BIT_CENTRED, CHOOSE_SGD))),
    *(Rule(name=name, one=Trait({"bits": bits}), other=Trait({"encoding": codes}),
           reason="32 bits are floating-point numbers, encoding float")
      for name, bits, codes in (("float bits", is_(FLOAT_BITS), not_("float")),
                                ("float codes", not_(FLOAT_BITS), is_("float")))),
    Rule(name="corrected codes", one=Trait({"encoding": encoding(lambda one: one.corrected)}),
         other=Trait({"model": loss(lambda rule: not rule.quadratic)}),
         reason="its codes are corrected for the squared error alone",
         remedy="choose another {model}, or one of {encoding} " + ", ".join(
             name for name, one in ENCODINGS.items() if not one.corrected)),
    Rule(name="copies of codes", one=Trait({"copies": several}),
         other=Trait({"bits": is_(FLOAT_BITS), "encoding": encoding(lambda one: not one.draws)}),
         reason="its codes are not drawn, so all copies would be the same",
         remedy="leave {copies} out, or choose an {encoding} that draws, such as "
         "{encoding=stochastic}"),
    Rule(name="bound of a loss", one=Trait({"epsilon": given}),
         other=Trait({"model": loss(lambda rule: not rule.clipped)}), needs="{model=huber}",
         reason="the derivative of another loss has no bound to choose",
         remedy="leave {epsilon} out, or choose {model=huber}"),
    Rule(name="refetched loss", one=Trait({"refetch": bool}),
         other=Trait({"model": loss(lambda rule: not rule.one_sided)}), needs="{model=svm}",
         reason="the update of another loss depends on more than the side of a bound",
         remedy="leave {refetch} out"),
    Rule(name="refetched batch", one=Trait({"refetch": bool}), other=Trait({"batch": above(1)}),
         reason="every row is decided with the model right before it",
         remedy="choose {batch=1}, or {refetch=False}, which uses the codes alone"),
    Rule(name="refetched file", one=Trait({"refetch": bool}),
         other=Trait({"no_fine_rows": given}), needs="fine rows",
         reason="refetching reads rows again from them",
         remedy="write them with `bitstep quantize --fine-rows` (fine_rows=True)"),
    *(Rule(name=f"fine rows, {trait}", one=Trait({"fine_rows": bool}), other=HARDWARE[trait],
           reason=reason_of("refetching", trait), remedy=REMEDIES["refetching, unbounded codes"]
           .replace("refetch", "fine_rows") if trait == "unbounded codes" else
           "leave one of the two out")
      for trait in ("unbounded codes", "codebooks")),
    *(Rule(name=f"{rule.one}, {rule.other}", one=HARDWARE[rule.one], other=HARDWARE[rule.other],
           reason=rule.reason, remedy=REMEDIES.get(f"{rule.one}, {rule.other}", Rule.remedy))
      for rule in EXCLUSIONS),
    Rule(name="columns without an intercept", one=Trait({"intercept": is_(False)}),
         other=Trait({"scaler": not_("maxabs")}), needs="{scaler=maxabs}",
         reason="the other scalers shift columns", remedy="choose it, or train an intercept"),

    # A pass
    Rule(name="several models without packed rows", one=Trait({
             "device_models": above(MAX_MODELS), "models": above(MAX_MODELS)}),
         other=Trait({"packed": missing}), needs="{packed}",
         reason=f"padded rows allow at most {MAX_MODELS} models in a pass",
         remedy=f"choose up to {MAX_MODELS}, or packed rows"),
    Rule(name="features of packed rows", one=Trait({"packed": bool}),
         other=Trait({"n_features": above(MAX_PACKED_FEATURES)}),
         reason=f"it is for up to {MAX_PACKED_FEATURES} features", remedy="leave {packed} out"),
    Rule(name="beats of packed rows", one=Trait({"packed": bool}), other=Trait({"row_bits": given}),
         reason="a packed row must fit into a beat",
         remedy="choose a wider {bus_width} or fewer {bits}, or leave {packed} out"),
    Rule(name="length of packed rows", one=Trait({"packed": bool}),
         other=Trait({"features": given}),
         reason="the pipeline is chosen for rows of {max_features}"),

    # Steps and stopping
    Rule(name="steps of a list", one=Trait({"step": not_("auto")}),
         other=Trait({"schedule": lambda name: name is not None and not (
             isinstance(name, str) and name in SCHEDULES)}),
         reason="a list or file of steps holds the steps themselves"),
    Rule(name="rows to hold out", one=Trait({"validation_fraction": given}),
         other=Trait({"early_stopping": missing}), needs="{early_stopping}",
         reason="it is the share of rows that is held out", remedy="give both, or none"),
    Rule(name="epochs without gain", one=Trait({"n_iter_no_change": given}),
         other=Trait({"early_stopping": missing, "tol": missing}, every=True),
         needs="{early_stopping} or {tol} above 0", reason="it counts epochs that gain too little",
         remedy="give one of them, or leave it out"),
    Rule(name="epochs without gain, bit-centred", one=Trait({"n_iter_no_change": given}),
         other=BIT_CENTRED, reason="that solver stops by {tol} alone"),
    Rule(name="early stopping of a part", one=Trait({"early_stopping": bool}),
         other=Trait({"partial_fit": bool}),
         reason="each call trains one epoch, and none can hold rows out of all calls",
         remedy="score the model on rows of your own between the calls"),
    Rule(name="planes of a part", one=SGD_PLANES, other=Trait({
             "partial_fit": bool, "warm_start": bool}),
         reason="they depend on the epochs before, which a model does not hold",
         remedy="give a list of {planes}"),
    Rule(name="bound of a part", one=Trait({"model": loss(lambda rule: rule.clipped)}),
         other=Trait({"partial_fit": bool}),
         reason="its bound is a multiple of the spread of all labels",
         remedy="choose another {model}, or train on all rows at once"),
    Rule(name="weights of a part", one=Trait({"class_weight": is_("balanced")}),
         other=Trait({"partial_fit": bool}), reason="it needs all rows at once",
         remedy="give a dictionary of weights by class"),
    Rule(name="weights of a regression", one=Trait({"class_weight": given}),
         other=Trait({"model": task("regression")}), reason="a regression has no classes",
         remedy="leave {class_weight} out, or choose a {model} of classes"),

    # Solver bit-centred
    Rule(name="bit-centred, loss", one=BIT_CENTRED,
         other=Trait({"model": loss(lambda rule: not math.isfinite(rule.curvature))}),
         reason="it is for losses whose derivative is continuous, all but the hinge",
         remedy=f"choose another {{model}}, or {CHOOSE_SGD}"),
    Rule(name="bit-centred, clipped loss", one=BIT_CENTRED,
         other=Trait({"model": loss(lambda rule: rule.clipped)}),
         reason="its inner passes have no derivative that is clipped",
         remedy=f"choose another {{model}}, or {CHOOSE_SGD}"),
    Rule(name="bit-centred, penalty", one=BIT_CENTRED, other=Trait(PROXIMAL),
         reason="it is for objectives with {l2} alone", remedy=f"choose {{l2}}, or {CHOOSE_SGD}"),
    Rule(name="bit-centred, batch", one=BIT_CENTRED, other=Trait({"batch": above(1)}),
         reason="its passes have batches of one row"),
    Rule(name="bit-centred, schedule", one=BIT_CENTRED,
         other=Trait({"schedule": lambda name: name is not None and not (
             isinstance(name, str) and name == "constant")}),
         reason="it has one step for all outer steps"),
    Rule(name="bit-centred, range", one=BIT_CENTRED, other=Trait({"model_range": given}),
         reason="it chooses the range of its numbers in each pass"),
    Rule(name="bit-centred, early stopping", one=BIT_CENTRED,
         other=Trait({"early_stopping": bool}),
         reason="it goes to the optimum of the rows and stops by {tol} alone",
         remedy="leave {early_stopping} out; a larger {l2} makes the model smaller"),

    # Candidates that share passes
    Rule(name="sweep, planes", one=SGD_SWEEP, other=Trait({"planes": is_("auto")}),
         reason="candidates share their passes over the rows, but the planes of each depend on its "
         "model", remedy="give the number of {planes} or a list, or train the candidates one by "
         "one"),
    Rule(name="sweep, stopping", one=SGD_SWEEP, other=Trait(STOPPING),
         reason="candidates share their epochs",
         remedy="compare them without it, then train with the best values"),
    Rule(name="sweep, one training", one=SWEEP,
         other=Trait({"init": given, "checkpoint": given, "resume": given}),
         reason="a start and a checkpoint are those of one training",
         remedy="sweep first, then train with the best values"),
)

# What asks for SGD where the solver is chosen by itself, though bit-centred training would take it.
AUTOMATIC: tuple[Rule, ...] = (
    Rule(name="auto, device", one=BIT_CENTRED, other=Trait({"no_bit_planes": given}),
         reason="it has no pipeline for bit-plane rows"),
    Rule(name="auto, part", one=BIT_CENTRED, other=Trait({"partial_fit": bool}),
         reason="each call trains one epoch on its own rows, and an optimum is one of all rows"),
    Rule(name="auto, step", one=BIT_CENTRED, other=Trait({"step": not_("auto")}),
         reason="it is a learning rate"),
    Rule(name="auto, schedule", one=BIT_CENTRED,
         other=Trait({"schedule": given}),
         reason="it is one of learning rates"),
    Rule(name="auto, planes", one=BIT_CENTRED,
         other=Trait({"planes": given}),
         reason="it is a precision of epochs"),
    Rule(name="auto, epochs", one=BIT_CENTRED, other=Trait({"epochs": below(LEAST_OUTER_STEPS)}),
         reason=f"an optimum may take {LEAST_OUTER_STEPS} outer steps or more"),
)
