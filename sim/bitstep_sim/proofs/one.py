"""``python -m bitstep_sim.proofs.one NAME``: look for a run that breaks a property, in a process
with another RTL.
"""

import sys

from bitstep_sim.proofs.formal import prove
from bitstep_sim.proofs.properties import find

if __name__ == "__main__":
    outcome = prove(find(sys.argv[1]), search=True)
    print(f"{outcome.result}\t{outcome.seconds:.1f}\t{outcome.detail}")
