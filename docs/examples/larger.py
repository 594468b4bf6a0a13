"""Data larger than memory: a file is quantized in two passes, then trained on where it is mapped.

100,000 rows stand for many more: memory follows the pieces, not the file.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from bitstep.cli import main as bitstep  # the command `bitstep`, in this process

rng = np.random.default_rng(0)
rows = rng.normal(size=(100_000, 41)).astype(np.float32)
rows[:, -1] = rows[:, :-1] @ rng.normal(size=40) + rng.normal(size=len(rows))   # the label
np.save("rows.npy", rows)

widths, sizes, losses = (2, 4, 8), [], []
for bits in widths:
    bitstep(["quantize", "rows.npy", "--bits", str(bits), "--out", "quantized.npz"])
    bitstep(["train", "quantized.npz", "--epochs", "3", "--device", "cpu", "--out", "model.npz"])
    bitstep(["predict", "model.npz", "rows.npy", "--out", "predictions.csv"])
    predicted = np.loadtxt("predictions.csv")
    sizes.append(os.path.getsize("quantized.npz") / 1e6)
    losses.append(np.mean((predicted - rows[:, -1]) ** 2))

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(sizes, losses, "o-")
for bits, size, loss in zip(widths, sizes, losses, strict=True):
    axes.annotate(f"{bits} bits", (size, loss), xytext=(5, 5), textcoords="offset points")
axes.margins(0.15)
axes.set(xlabel=f"quantized file in MB (the rows: {os.path.getsize('rows.npy') / 1e6:.1f} MB)",
         ylabel="mean squared error", title="3 epochs; the noise alone has 1.0")
figure.savefig("larger.png", dpi=110)
