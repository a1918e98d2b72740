"""Loss curves of several runs beside each other, whole and close up, as in the paper's appendix on Latent NF.

python benchmarks/loss_curves.py OUT.png NAME=FOLDER [NAME=FOLDER ...]

Every curve is the mean of the last ten losses.
"""

from __future__ import annotations

import sys
from pathlib import Path

from catnf.reporting.curves import draw_curves

if __name__ == "__main__":
    named = dict(part.split("=", 1) for part in sys.argv[2:])
    if not named:
        sys.exit(__doc__)
    print(draw_curves(Path(sys.argv[1]), {name: Path(folder) for name, folder in named.items()}))
