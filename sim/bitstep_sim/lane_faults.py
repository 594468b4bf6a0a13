"""Faults in the products of lanes and in their sum, and the tests that must find them."""

from bitstep_sim.fault_runs import fault_of as _fault

_SUM, _PRODUCT, _DOT = ("parts/arithmetic.py", "parts/lane_product.py",
                        "pipeline/products/dot_product.py")

LANE_FAULTS = [
    _fault("delay too short", _SUM, "signs[first + (1 << level)], stage + 1",
           "signs[first + (1 << level)], stage"),
    _fault("wrong item", _SUM, "signs[first + (1 << level)]", "signs[first + 1]"),
    _fault("sign dropped", _SUM, "Cat(negative, flipped)", "Cat(C(0, 1), flipped)"),
    _fault("sign dropped", _PRODUCT, "level[0] & ~level[1])", "level[0])"),
    _fault("rounding dropped", _PRODUCT, "((product >> distance) + 1) >> 1",
           "(product >> distance) >> 1"),
    _fault("constant changed", _PRODUCT, "_FAR = 63", "_FAR = 31"),
    _fault("delay too short", "pipeline/model/store.py", "waits + value_stages(config)", "waits"),
    _fault("condition dropped", _DOT, "register(m, Mux(level[0], word, 0)",
           "register(m, word"),
    _fault("delay too short", _DOT, "delay(m, signs[0], stages + 1", "delay(m, signs[0], stages"),
    _fault("sign dropped", _DOT, "Mux(first, 0, row), total, negative)",
           "Mux(first, 0, row), total, None)"),
]
