"""Claims that need a training: where their counterparts are, or why there is none."""

from bitstep_gradients.lab.papers.claims import Run


def _race(rest: str, what: str = "") -> str:
    """A race; ``--out DIR`` is left away."""
    return f"`bitstep gradients race {rest}`" + (f": {what}" if what else "")


FC = "on FC-300-100 [below](#what-a-training-shows)"
LONG = "on FC-300-100 [below](#dq-sgd-in-1000-steps)"
CIFAR = "not at this scale, because CIFAR-10 is not bundled"
IMAGENET = "not at this scale, because ImageNet and its networks need GPUs for days"
WORKERS = "--workers 1 2 4 8"

RUNS: dict[str, list[Run]] = {
    "ALQ": [
        Run("Fig. 1, 4, 12: variance on each method's own path", FC),
        Run("Fig. 2: random rounding of values", "none, because it is a drawing of the method"),
        Run("Fig. 3, 9, 10: loss during the training",
            f"{FC}; {_race('resnet', 'loss against steps and bytes')}"),
        Run("Fig. 5, 11: variance on the path of uncompressed SGD",
            f"{FC}; {_race('resnet', 'error of one message of every codec')}"),
        Run("Fig. 6: levels during the training",
            f"{FC}; {_race('resnet --codecs alq', 'levels over time')}"),
        Run("Fig. 7: effect of bucket size and bits", FC),
        Run("Fig. 8: convergence of the level updates",
            "two claims of the table above, on a Gaussian bucket"),
        Run("Fig. 13: 32 workers", f"up to 8; {_race(f'resnet {WORKERS}')}"),
        Run("Fig. 14: clipping at 2.5 deviations", "none, because only `terngrad` clips here"),
        Run("Tables 1, 4: accuracy on ImageNet", IMAGENET),
        Run("Tables 1, 2: accuracy of ResNet32 and ResNet110 on CIFAR-10",
            f"{CIFAR}; {FC}, and {_race('resnet')} on digits"),
        Run("Table 3: settings of the trainings", "none, because it has no result"),
        Run("Tables 5, 6: time of a step", "not at this scale, because they are of V100 GPUs; "
            f"{_race('resnet', 'modelled times')}")],
    "QCS": [
        Run("Fig. 1: schema of the workers", "none, because it is a drawing"),
        Run("Fig. 2: linear regression, n = 64, m = 50",
            "`python -m bitstep_gradients.lab.papers --regression`, "
            "[below](#steps-that-converge)"),
        Run("Fig. 3: gamma against the gain",
            "`python -m bitstep_gradients.lab.sketches`: least gamma at a compression gain"),
        Run("Fig. 4: relative error on LeNet's gradients",
            f"{FC}; {_race('lenet', 'error of one message of every codec')}"),
        Run("Fig. 5: time to compress", "not at this scale, because it is of a Titan Xp"),
        Run("22 s for 100 batches of AlexNet against 27, 42, 55 and 90 s", IMAGENET),
        Run("Fig. 6: accuracy against workers", _race(f"fc lenet {WORKERS}")),
        Run("Fig. 7: convergence of FC and LeNet", f"{FC}; {_race('lenet')}"),
        Run("Fig. 8: convergence of CifarNet", f"{CIFAR}; {_race('lenet')} on digits")],
    "DQSG": [
        Run("Table 1: TernGrad's column (426.2, 2641.2, 1692 Kbit)",
            "none, because the paper does not say what is counted"),
        Run("Table 2: entropies",
            f"{FC}; {_race('lenet --codecs dqsg:payload=range one-bit', 'bytes a step')}"),
        Run("Table 3: accuracy of CifarNet after 50 epochs",
            f"{CIFAR}; {_race('lenet')} on digits"),
        Run("Fig. 1, 2: schemata", "none, because they are drawings"),
        Run("Fig. 4: accuracy against workers", f"{FC}, 4 workers; {_race(f'fc lenet {WORKERS}')}"),
        Run("Fig. 5: accuracy of nested quantization, 8 workers, half of them nested",
            f"{FC}, 4 workers, all nested; "
            f"{_race('fc --workers 8 --codecs none dqsg:levels=3 ndqsg')}")],
    "DQ-SGD": [
        Run("Fig. 1, Table II: accuracy against communication",
            f"{LONG}; {_race('resnet', 'accuracy against bytes')}"),
        Run("Fig. 2: fixed against dynamic bits, bits of every step",
            f"{LONG}; "
            + _race("resnet --codecs qsgd-linf:bits=6 dq-sgd:like_bits=6", "bits over time")),
        Run("Fig. 3: accuracy at equal communication",
            f"{LONG}; {_race('resnet --codecs qsgd-linf:bits=4 dq-sgd:mean_bits=4')}"),
        Run("Table I: settings of the trainings", "none, because it has no result")],
    "ZipML": [
        Run("linear models from few bits, refetching, the FPGA's speed-up",
            "[encodings.md](encodings.md), [refetching.md](refetching.md), [races.md](races.md)")],
}
