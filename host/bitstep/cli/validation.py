"""Options of ``bitstep train`` that end a training early."""

from typing import Any

from bitstep.options.rules import Request


def stopping_settings(request: Request) -> dict[str, Any]:
    """The options of a request with its defaults; None for those without effect."""
    early = request["early_stopping"]
    stops = bool(early or (request["tol"] and request["solver"] == "sgd"))
    return {"tol": (request["tol"] or 0.0) if stops else request["tol"] or None,
            "early-stopping": True if early else None,
            "validation-fraction": request["validation_fraction"] if early else None,
            "n-iter-no-change": request["n_iter_no_change"] if stops else None}
