"""Tables as data frames: a density, anomaly scores, synthetic rows and filled gaps.

```python
from catnf.tabular import CategoricalFlow

flow = CategoricalFlow().fit(frame)
flow.score_samples(frame)  # log-likelihood of every row
flow.sample(1000, given={"housing": "own"})
```
"""

from catnf.tabular.estimator import CategoricalFlow

__all__ = ["CategoricalFlow"]
