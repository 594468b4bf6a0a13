"""Many machines: the largest component of the gradient by outer step, for 1, 4 and 16 shards.

The workers of this cluster are threads of this process; on other machines the model is the same.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

from bitstep.dask import LowPrecisionClassifier

rng = np.random.default_rng(0)
features = rng.standard_normal((40_000, 20)) @ rng.standard_normal((20, 20))
margins = features @ rng.standard_normal(20) / 10
labels = (rng.random(len(margins)) < 1 / (1 + np.exp(-margins))).astype(int)

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as client:
    for shards, style in ((1, "o-"), (4, "s--"), (16, "^:")):
        rows = len(features) // shards
        model = LowPrecisionClassifier(client=client, random_state=0)
        model.fit(da.from_array(features, chunks=(rows, 20)), da.from_array(labels, chunks=rows))
        sizes = [entry["gradient"] for entry in model.history_]
        print(f"shards: {model.n_shards_}, outer steps: {model.n_iter_}")
        axes.semilogy(range(1, len(sizes) + 1), sizes, style,
                      label=f"{shards} shards" if shards > 1 else "1 shard")
axes.axhline(1e-4, color="black", linewidth=1, label="tol, the default")
axes.set(xlabel="outer steps", ylabel="gradient, of that at weights of 0",
         title="logistic regression, 40,000 rows of 20 features")
axes.legend(frameon=False)
figure.savefig("shards.png", dpi=110)
