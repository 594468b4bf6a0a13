"""A scikit-learn pipeline: columns of two kinds, a search over bits, and curves of the best."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

from bitstep import LowPrecisionClassifier

data = load_breast_cancer()
names = data.target_names[data.target]                      # labels may be strings
areas = [number for number, name in enumerate(data.feature_names) if "area" in name]
train, test, train_names, test_names = train_test_split(
    data.data, names, test_size=0.3, stratify=names, random_state=0)

# Areas have long tails, which would leave few levels for most of their values.
columns = make_column_transformer((QuantileTransformer(n_quantiles=100), areas),
                                  remainder="passthrough")
search = GridSearchCV(
    make_pipeline(columns, LowPrecisionClassifier(solver="sgd", random_state=0)),
    {"lowprecisionclassifier__bits": [2, 4, 6, 8]}, cv=3)
search.fit(train, train_names)
for bits, score in zip(search.cv_results_["param_lowprecisionclassifier__bits"],
                       search.cv_results_["mean_test_score"], strict=True):
    print(f"{bits} bits: accuracy {score:.3f}")
classifier = search.best_estimator_[-1]
print(f"chosen: {classifier.bits} bits; test accuracy {search.score(test, test_names):.3f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
losses = [entry["train_loss"] for entry in classifier.history_]
left.plot(np.arange(1, len(losses) + 1), losses, "o-", markersize=4)
left.set(xlabel="epoch", ylabel="training loss", title="loss of every epoch")
right.plot(np.sort(search.decision_function(test)[test_names == "malignant"]), "s", markersize=3,
           label="malignant")
right.plot(np.sort(search.decision_function(test)[test_names == "benign"]), "o", markersize=3,
           label="benign")
right.axhline(0, color="black", linewidth=1)
right.set(xlabel="test rows, sorted", ylabel="decision", title="decisions on the test rows")
right.legend(frameon=False)
figure.savefig("pipeline.png", dpi=110)
