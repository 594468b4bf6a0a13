"""scikit-learn estimators: linear regression, linear SVMs and logistic regression on quantized
rows. Package ``bitstep`` exports them.
"""

from bitstep.estimators.classifier import LowPrecisionClassifier as LowPrecisionClassifier
from bitstep.estimators.regressor import LowPrecisionRegressor as LowPrecisionRegressor
