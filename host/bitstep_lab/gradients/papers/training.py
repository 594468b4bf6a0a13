"""Claims that need a training: where their counterparts are, or why there is none."""

from bitstep_lab.gradients.papers.claims import Run

RACE = "`bitstep gradients race`"
CIFAR = "not at this scale, because CIFAR-10 is not bundled"
IMAGENET = "not at this scale, because ImageNet and its networks need GPUs for days"

RUNS: dict[str, list[Run]] = {
    "ALQ": [
        Run("Fig. 1, 4, 11, 12: variance during the training", f"{RACE}: variance of each codec"),
        Run("Fig. 3, 9, 10: loss during the training", f"{RACE}: loss against steps and bytes"),
        Run("Fig. 5: variance without training by the codec", f"{RACE}: variance of each codec on "
            "the gradients of an uncompressed run"),
        Run("Fig. 6: levels during the training", f"{RACE}: levels over time"),
        Run("Fig. 7: effect of bucket size and bits", f"{RACE} with a list of codecs"),
        Run("Fig. 13, 14, Table 2: number of workers", f"{RACE} with 1 to 8 processes"),
        Run("Tables 1, 4: accuracy on ImageNet", IMAGENET),
        Run("Table 2: accuracy of ResNet32 on CIFAR-10", f"{RACE}: a small residual network on "
            "bundled data"),
        Run("Tables 5, 6: time of a step", "not at this scale, because they are of V100 GPUs; "
            f"{RACE} models the time at a bandwidth and latency")],
    "QCS": [
        Run("Fig. 2: linear regression, n = 64, m = 50", f"{RACE}: linear regression"),
        Run("Fig. 4: relative error on LeNet's gradients", f"{RACE}: variance of each codec"),
        Run("Fig. 5: time to compress", "not at this scale, because it is of a Titan Xp; speed of "
            "all codecs is in this page"),
        Run("22 s for 100 batches of AlexNet against 27, 42, 55 and 90 s", IMAGENET),
        Run("Fig. 6, 7: accuracy and convergence of FC and LeNet", f"{RACE}: FC-300-100, LeNet"),
        Run("Fig. 8: convergence of CifarNet", f"{CIFAR}; {RACE} has LeNet on digits")],
    "DQSG": [
        Run("Table 1: TernGrad's column (426.2, 2641.2, 1692 Kbit)", "none, because the paper does "
            "not say what is counted"),
        Run("Table 2: entropies", f"{RACE}: bytes of the payloads `huffman` and `range`"),
        Run("Table 3: accuracy of CifarNet after 50 epochs",
            f"{CIFAR}; {RACE} has LeNet on digits"),
        Run("Fig. 4: accuracy against workers", f"{RACE} with 1 to 8 processes"),
        Run("Fig. 5: accuracy of nested quantization, 8 workers", f"{RACE} with `ndqsg`")],
    "DQ-SGD": [
        Run("Fig. 1, Table II: accuracy against communication", f"{RACE}: accuracy against bytes"),
        Run("Fig. 2: fixed against dynamic bits, bits of every step", f"{RACE}: bits over time"),
        Run("Fig. 3: accuracy at equal communication", f"{RACE}: accuracy against bytes")],
    "ZipML": [
        Run("linear models from few bits, refetching, the FPGA's speed-up",
            "[encodings.md](encodings.md), [refetching.md](refetching.md), [races.md](races.md)")],
}
