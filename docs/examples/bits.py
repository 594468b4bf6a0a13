"""Bits a value: score of a regression at 1 to 8 bits, beside ridge regression at full precision."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bitstep import LowPrecisionRegressor

X, y = load_diabetes(return_X_y=True)
ridge = cross_val_score(make_pipeline(StandardScaler(), Ridge()), X, y).mean()
print(f"Ridge, float64: R2 {ridge:.3f}")

widths = range(1, 9)
scores = {}
for levels in ("uniform", "optimal"):
    scores[levels] = [
        cross_val_score(LowPrecisionRegressor(bits=bits, levels=levels, solver="sgd",
                                              random_state=0), X, y).mean()
        for bits in widths if levels == "uniform" or bits <= 5]
    print(f"{levels} levels, {len(scores[levels])} widths: R2",
          " ".join(f"{score:.3f}" for score in scores[levels]))

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.axhline(ridge, color="black", linewidth=1, label="Ridge, float64")
for (levels, found), style in zip(scores.items(), ("o-", "s--"), strict=True):
    axes.plot(widths[:len(found)], found, style, markersize=4, label=f"{levels} levels")
axes.set(xlabel="bits a value", ylabel="R2, mean of 5 folds", title="diabetes", xticks=widths)
axes.legend(frameon=False)
figure.savefig("bits.png", dpi=110)
