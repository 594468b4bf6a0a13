"""Gradients of few bits: four workers train one model, and send messages instead of float32."""

import matplotlib.pyplot as plt
import numpy as np

from bitstep_gradients import ErrorFeedback, Key, make_codec

WORKERS, FEATURES, STEPS, RATE = 4, 256, 60, 0.2
rng = np.random.default_rng(0)
rows = rng.normal(size=(WORKERS, 500, FEATURES)).astype(np.float32) / np.sqrt(FEATURES)
weights = rng.normal(size=FEATURES).astype(np.float32)
labels = rows @ weights


def train(make):
    """Loss of every step, and bytes that a worker sends in one."""
    model, losses, sent = np.zeros(FEATURES, np.float32), [], 0
    codecs = [make() for _ in range(WORKERS)]       # error feedback keeps a residual a worker
    for step in range(STEPS):
        total = np.zeros(FEATURES, np.float32)
        for rank, codec in enumerate(codecs):
            residual = rows[rank] @ model - labels[rank]
            gradient = rows[rank].T @ residual / len(residual) * FEATURES
            key = Key(seed=1, step=step, rank=rank, tensor=0)
            message = codec.encode(gradient, key)
            sent = len(message)
            total += codec.decode(message, key)
        model -= RATE * total / WORKERS
        losses.append(np.mean((rows @ model - labels) ** 2) / 2)
    return losses, sent


codecs = {
    "float32": lambda: make_codec("none"),
    "dqsg, 4 bits": lambda: make_codec("dqsg", bits=4, bucket_size=64),
    "dqsg, 2 bits": lambda: make_codec("dqsg", bits=2, bucket_size=64),
    "signs": lambda: make_codec("one-bit"),
    "signs, error feedback": lambda: ErrorFeedback(make_codec("one-bit")),
}
figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for (name, make), style in zip(codecs.items(), ("-", "--", ":", "-.", "o-"), strict=True):
    losses, sent = train(make)
    print(f"{name:22} {sent:6,} bytes a step and worker; last loss {losses[-1]:.3g}")
    axes.semilogy(range(1, STEPS + 1), losses, style, markevery=5, markersize=4,
                  label=f"{name}: {sent:,} bytes")
axes.set(xlabel="step", ylabel="training loss", title="four workers, 256 weights")
axes.legend(frameon=False, fontsize=8)
figure.savefig("gradients.png", dpi=110)
